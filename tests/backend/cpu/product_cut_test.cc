// How products are partitioned: parts fit a thread's memory, are small enough if that is possible, and what costs more to pack is packed
// less often.
#include "backend/cpu/product_cut.h"

#include <limits>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "backend/cpu/product_tasks.h"

namespace moesh::backend::cpu {
namespace {

ProductSize product(std::int64_t rows, std::int64_t columns, std::int64_t depth) {
  return {.rows = rows, .columns = columns, .depth = depth, .block_rows = 14, .block_columns = 32, .most_rows = 224};
}

std::int64_t rows_of(const ProductSize& of, Cut cut) { return piece_at_most(of.rows, of.block_rows, cut.bands); }
std::int64_t columns_of(const ProductSize& of, Cut cut) { return piece_at_most(of.columns, of.block_columns, cut.parts); }

TEST(ProductCut, PiecesCoverAllAndShareBlocksEvenly) {
  for (const std::int64_t all : {1, 14, 15, 256, 1000, 4096}) {
    const std::int64_t blocks = divide_up(all, std::int64_t{14});
    for (std::int64_t pieces = 1; pieces <= blocks; pieces += 1 + pieces / 3) {
      std::int64_t end = 0;
      for (std::int64_t i = 0; i < pieces; ++i) {
        const Range piece = piece_of(all, 14, pieces, i);
        EXPECT_EQ(piece.begin, end);
        EXPECT_GT(piece.size(), 0) << all << " in " << pieces;
        EXPECT_LE(piece.size(), piece_at_most(all, 14, pieces));
        EXPECT_GE(divide_up(piece.size(), 14), blocks / pieces);
        end = piece.end;
      }
      EXPECT_EQ(end, all);
    }
  }
}

TEST(ProductCut, FitsAThreadsMemory) {
  // Rows that are read where they lie take no memory.
  for (const std::int64_t most_rows : {std::int64_t{224}, std::numeric_limits<std::int64_t>::max()}) {
    for (const std::int64_t rows : {1, 13, 14, 223, 225, 1000, 4096, 70000}) {
      for (const std::int64_t columns : {1, 31, 500, 8192, 100000}) {
        ProductSize of = product(rows, columns, 512);
        of.most_rows = most_rows;
        of.most_sums = 100000;
        for (const Cut cut : {cut_of(of, 1e18), cut_of(of, 1e6), cut_for_threads(of, 1), cut_for_threads(of, 7)}) {
          EXPECT_LE(rows_of(of, cut), most_rows) << rows;
          EXPECT_LE(rows_of(of, cut) * columns_of(of, cut), 100000) << rows << " x " << columns;
          EXPECT_TRUE(cut.bands >= 1 && cut.bands <= of.row_blocks()) << cut.bands << " of " << rows;
          EXPECT_TRUE(cut.parts >= 1 && cut.parts <= of.column_blocks()) << cut.parts << " of " << columns;
        }
      }
    }
  }
}

TEST(ProductCut, LeavesWholeWhatIsSmallEnough) {
  const ProductSize of = product(200, 1000, 64);
  const Cut cut = cut_of(of, of.work());
  EXPECT_EQ(cut.bands, 1);
  EXPECT_EQ(cut.parts, 1);
}

TEST(ProductCut, EndsWhereBlocksAreNoLongerDivided) {
  const ProductSize of = product(100, 100, 1000);
  const Cut cut = cut_of(of, 1);
  EXPECT_EQ(cut.bands, of.row_blocks());
  EXPECT_EQ(cut.parts, of.column_blocks());
}

TEST(ProductCut, HalvesWhatPacksLess) {
  ProductSize of = product(112, 448, 512);
  EXPECT_EQ(cut_of(of, of.work() / 2).bands, 1) << "columns are more";
  EXPECT_EQ(cut_of(of, of.work() / 2).parts, 2);
  of.pack_column = of.pack_row / 8;
  EXPECT_EQ(cut_of(of, of.work() / 2).bands, 2) << "rows are cheaper to halve";
  EXPECT_EQ(cut_of(of, of.work() / 2).parts, 1);
}

TEST(ProductCut, GivesEachThreadAsMuch) {
  for (const std::int64_t threads : {2, 3, 8}) {
    for (const std::int64_t rows : {256, 1024, 2048}) {
      for (const std::int64_t columns : {512, 1024}) {
        const ProductSize of = product(rows, columns, 512);
        const Cut cut = cut_for_threads(of, threads);
        const std::int64_t turns = divide_up(cut.bands * cut.parts, threads);
        const double longest = static_cast<double>(turns * rows_of(of, cut) * columns_of(of, cut));
        EXPECT_LE(longest * static_cast<double>(threads), 1.3 * static_cast<double>(rows * columns))
            << rows << " x " << columns << " on " << threads << " in " << cut.bands << " x " << cut.parts;
      }
    }
  }
}

TEST(ProductCut, LeavesToOneThreadWhatIsDoneBeforeOthersJoin) {
  const ProductSize of = product(28, 64, 40);
  const Cut cut = cut_for_threads(of, 2);
  EXPECT_EQ(cut.bands * cut.parts, 1);
}

// A batch of products with these numbers of rows. Those of at most four rows count as products of few rows.
struct Products {
  std::vector<std::int64_t> rows;
  std::int64_t columns = 512, depth = 256;
  std::int64_t batch = static_cast<std::int64_t>(rows.size());

  Range rows_of(std::int64_t i) const { return {0, rows[static_cast<std::size_t>(i)]}; }
  ScratchList<ProductPart> tasks(std::int64_t threads, double least_work = 1) const {
    const auto size_of = [&](std::int64_t i) { return product(rows_of(i).size(), columns, depth); };
    return tasks_of(*this, threads, least_work, size_of, [&](std::int64_t i) { return rows_of(i).size() <= 4 ? 3 : 0; });
  }
};

double work_of(const ProductPart& task) { return static_cast<double>(task.rows.size() * task.columns.size()); }

TEST(ProductTasks, MakeEachElementOnce) {
  for (const std::vector<std::int64_t>& rows : std::vector<std::vector<std::int64_t>>{
           {}, {0}, {1}, {700}, {0, 3, 0, 2, 4, 1, 1}, {500, 0, 1, 377, 2, 655, 14}, {64, 64, 64, 64, 64, 64, 64, 64}}) {
    for (const std::int64_t threads : {1, 2, 3, 16}) {
      const Products of{.rows = rows};
      std::vector<std::vector<int>> made;
      for (const std::int64_t count : rows) made.emplace_back(static_cast<std::size_t>(count * of.columns));
      for (const ProductPart& task : of.tasks(threads)) {
        for (std::int64_t row = task.rows.begin; row < task.rows.end; ++row) {
          for (std::int64_t j = task.columns.begin; j < task.columns.end; ++j) {
            ++made[static_cast<std::size_t>(task.i)][static_cast<std::size_t>(row * of.columns + j)];
          }
        }
      }
      for (const std::vector<int>& one : made) {
        for (const int times : one) ASSERT_EQ(times, 1) << threads << " threads";
      }
    }
  }
}

TEST(ProductTasks, OfOneThreadAreWholeProducts) {
  const Products of{.rows = {200, 2, 100, 150}};
  EXPECT_EQ(of.tasks(1).size(), 4u);
}

TEST(ProductTasks, GoLargestFirstAndAreSmallAtTheEnd) {
  for (const std::int64_t threads : {2, 4}) {
    const Products of{.rows = {200, 90, 130, 60, 170, 110, 150, 120}};
    const ScratchList<ProductPart> tasks = of.tasks(threads);
    double left = 0;
    for (const std::int64_t rows : of.rows) left += static_cast<double>(rows * of.columns);
    const double all = left;
    double of_product = 0;  // work of this product's tasks so far
    std::int64_t product = tasks.front().i;
    for (const ProductPart& task : tasks) {
      EXPECT_LE(of.rows_of(task.i).size(), of.rows_of(product).size());
      if (task.i != product) left -= std::exchange(of_product, 0);
      product = task.i;
      of_product += work_of(task);
      EXPECT_LE(work_of(task), std::max(left, all / 8) / static_cast<double>(threads));
    }
    EXPECT_LT(work_of(tasks.back()), all / static_cast<double>(10 * threads));
  }
}

TEST(ProductTasks, ShareOfFewRowsOnlyWhatNoThreadTakesWhole) {
  const ScratchList<ProductPart> tasks = Products{.rows = {1, 2, 300, 3, 4, 1}}.tasks(2);
  std::vector<std::int64_t> pieces(6);
  for (const ProductPart& task : tasks) ++pieces[static_cast<std::size_t>(task.i)];
  for (const std::size_t whole : {0, 1, 3, 4}) EXPECT_EQ(pieces[whole], 1) << whole;
  EXPECT_EQ(pieces[5], 3);
  EXPECT_EQ(tasks.front().i, 2);
}

TEST(ProductTasks, AreWorthAThread) {
  const Products of{.rows = {40, 40, 40}};
  for (const ProductPart& task : of.tasks(8, 1e9)) EXPECT_EQ(task.rows.size(), 40);
  EXPECT_EQ(of.tasks(8, 1e9).size(), 3u);
}

}  // namespace
}  // namespace moesh::backend::cpu
