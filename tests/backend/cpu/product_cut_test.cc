// How products are cut: parts fit, are small enough where they can be, and keep what costs more to pack.
#include "backend/cpu/product_cut.h"

#include <limits>

#include <gtest/gtest.h>

namespace moesh::backend::cpu {
namespace {

constexpr std::int64_t kAny = std::numeric_limits<std::int64_t>::max();

ProductSize product(std::int64_t rows, std::int64_t columns, std::int64_t depth) {
  return {.rows = rows, .columns = columns, .depth = depth, .row_step = 14, .column_step = 32, .most_rows = 224, .most_sums = kAny,
          .b_is_cheaper = 1};
}

TEST(ProductCut, FitsAThreadsMemory) {
  for (const std::int64_t rows : {1, 13, 14, 223, 225, 1000, 4096}) {
    for (const std::int64_t columns : {1, 31, 500, 8192}) {
      ProductSize of = product(rows, columns, 512);
      of.most_sums = 100000;
      const Cut cut = cut_of(of, std::numeric_limits<double>::max());
      EXPECT_LE(cut.rows, 224) << rows;
      EXPECT_EQ(cut.rows % 14, 0) << rows;
      EXPECT_TRUE(cut.columns >= columns || cut.columns % 32 == 0) << columns;
      EXPECT_LE(cut.rows * std::min(cut.columns, columns), 100000 + 32 * cut.rows) << rows << " x " << columns;
    }
  }
}

TEST(ProductCut, LeavesWholeWhatIsSmallEnough) {
  const ProductSize of = product(200, 1000, 64);
  const Cut cut = cut_of(of, of.work({200, 1000}));
  EXPECT_EQ(cut.rows, 210);
  EXPECT_EQ(cut.columns, 1000);
}

TEST(ProductCut, EndsWhereBlocksAreNoLongerDivided) {
  const Cut cut = cut_of(product(100, 100, 1000), 1);
  EXPECT_LT(cut.rows, 28);
  EXPECT_LT(cut.columns, 64);
  EXPECT_GT(cut.rows, 0);
  EXPECT_GT(cut.columns, 0);
}

TEST(ProductCut, HalvesWhatPacksLess) {
  ProductSize of = product(112, 448, 512);
  const double half = of.work({112, 448}) / 2;
  EXPECT_EQ(cut_of(of, half).rows, 112) << "columns are more";
  EXPECT_EQ(cut_of(of, half).columns, 224);
  of.b_is_cheaper = 4;
  EXPECT_EQ(cut_of(of, half).rows, 56) << "rows are cheaper to halve";
  EXPECT_EQ(cut_of(of, half).columns, 448);
}

}  // namespace
}  // namespace moesh::backend::cpu
