#include "backend/cpu/tile_block.h"

#include <gtest/gtest.h>

#if defined(__x86_64__)
#include <algorithm>
#include <cstring>
#include <optional>
#include <random>
#include <vector>

#include "backend/cpu/cache_line.h"
#include "backend/cpu/isa.h"
#include "backend/cpu/pack.h"
#include "backend/cpu/tile_instructions.h"
#include "tests/backend/cpu/tile_emulator.h"

namespace moesh::backend::cpu {
namespace {

constexpr std::int64_t kWidth = 32;

template <typename T>
struct Lined {
  explicit Lined(std::size_t count) : room(count + 64) {}
  T* data() { return reinterpret_cast<T*>((reinterpret_cast<std::uintptr_t>(room.data()) + 63) / 64 * 64); }
  std::vector<T> room;
};

// Small whole numbers, whose products and sums have no rounding errors.
void draw(bfloat16* to, std::int64_t count, std::mt19937& random) {
  std::uniform_int_distribution<int> number(-4, 4);
  for (std::int64_t i = 0; i < count; ++i) to[i] = bfloat16(static_cast<float>(number(random)));
}

// Where tiles of rows and panels of columns hold an element.
std::int64_t place_in_tiles(std::int64_t row, std::int64_t p, std::int64_t depth) {
  constexpr std::int64_t kTile = kTileRows * kTileDepth;
  return row / kTileRows * kTileRows * depth + p / kTileDepth * kTile + row % kTileRows * kTileDepth + p % kTileDepth;
}
std::int64_t place_in_panel(std::int64_t p, std::int64_t column) { return (p / 2 * kWidth + column) * 2 + p % 2; }

struct Kinds {
  std::int64_t row_tiles, column_tiles, steps;
  TilePassing passing;
  bool add, rows_are_packed;
};

// Operands of a block, where its sums come, and the sums that are right.
struct Problem {
  Problem(const Kinds& of, std::mt19937& random)
      : kinds(of),
        rows(of.row_tiles * kTileRows),
        depth(of.steps * kTileDepth),
        pitch(depth + 6),
        a(static_cast<std::size_t>(rows * pitch)),
        b(static_cast<std::size_t>(depth * kWidth)),
        c(static_cast<std::size_t>(rows * kWidth)) {
    draw(a.data(), rows * pitch, random);
    draw(b.data(), depth * kWidth, random);
    for (std::int64_t i = 0; i < rows * kWidth; ++i) c.data()[i] = static_cast<float>(i % 7);
    for (std::int64_t i = 0; i < rows; ++i) {
      for (std::int64_t j = 0; j < kWidth; ++j) {
        const bool is_there = j < kinds.column_tiles * kTileColumns;
        float sum = kinds.add || !is_there ? c.data()[i * kWidth + j] : 0;
        for (std::int64_t p = 0; p < depth && is_there; ++p) {
          const bfloat16 of_a = a.data()[kinds.rows_are_packed ? place_in_tiles(i, p, depth) : i * pitch + p];
          sum += static_cast<float>(of_a) * static_cast<float>(b.data()[place_in_panel(p, j)]);
        }
        expected.push_back(sum);
      }
    }
  }

  TileBlock block() {
    return {.row_tiles = kinds.row_tiles,
            .column_tiles = kinds.column_tiles,
            .passing = kinds.passing,
            .steps = kinds.steps,
            .a = a.data(),
            .a_pitch = kinds.rows_are_packed ? kTileDepth : pitch,
            .a_below = kTileRows * (kinds.rows_are_packed ? depth : pitch),
            .a_step = kinds.rows_are_packed ? kTileRows * kTileDepth : kTileDepth,
            .b = b.data(),
            .c = c.data(),
            .c_pitch = kWidth,
            .add = kinds.add};
  }

  float sum(std::int64_t row, std::int64_t column) const { return expected[static_cast<std::size_t>(row * kWidth + column)]; }

  Kinds kinds;
  std::int64_t rows, depth, pitch;
  Lined<bfloat16> a, b;
  Lined<float> c;
  std::vector<float> expected;
};

class TileBlocks : public testing::Test {
 protected:
  void SetUp() override {
    test::emulate_tiles();
    if (!can_run(Isa::amx_bf16)) GTEST_SKIP() << "no AMX, and no AVX-512 with bfloat16 to emulate it";
  }

  bool is_drawn() { return draw_of(2) == 1; }
  std::int64_t draw_of(std::int64_t count) { return std::uniform_int_distribution<std::int64_t>(0, count - 1)(random_); }

  std::mt19937 random_{7};
};

TEST_F(TileBlocks, AreTheProductsWhateverTheirSizeAndLayout) {
  for (const std::int64_t row_tiles : {1, 2}) {
    for (const std::int64_t column_tiles : {1, 2}) {
      for (const std::int64_t steps : {0, 1, 2, 3, 16}) {
        for (const TilePassing passing : {TilePassing::a, TilePassing::b, TilePassing::none}) {
          for (int kind = 0; kind < 4; ++kind) {
            Problem problem({row_tiles, column_tiles, steps, passing, (kind & 1) != 0, (kind & 2) != 0}, random_);
            TilePipeline pipeline(nullptr);
            shape_tiles();
            pipeline.multiply(problem.block());
            pipeline.finish();
            release_tiles();
            for (std::int64_t i = 0; i < problem.rows; ++i) {
              for (std::int64_t j = 0; j < kWidth; ++j) {
                ASSERT_EQ(problem.c.data()[i * kWidth + j], problem.sum(i, j))
                    << i << ", " << j << " of " << row_tiles << " x " << column_tiles;
              }
            }
          }
        }
      }
    }
  }
}

// Where the sums of a block are stored, with a part of its rows and columns.
struct Stored {
  static constexpr std::int64_t kPitch = 64;

  float at(std::int64_t row, std::int64_t column) {
    const std::int64_t place = row * kPitch + column;
    return rounds ? static_cast<float>(reinterpret_cast<bfloat16*>(to.data())[place]) : to.data()[place];
  }

  std::int64_t rows, columns;
  bool rounds, streams;
  Lined<float> to{32 * kPitch};
};

// Sums that are stored from a place of their own, in all ways, and those that are added to where they come, in any order. Rows and columns
// that are not stored are left as they are.
TEST_F(TileBlocks, AreStoredWhileOthersAreMultiplied) {
  using As = TilePipeline::As;
  for (int round = 0; round < 300; ++round) {
    std::vector<Problem> problems;
    std::vector<std::optional<Stored>> stored;
    Lined<float> room(2 * 32 * 32);
    TilePipeline pipeline(room.data());
    shape_tiles();
    const std::int64_t count = 1 + draw_of(6);
    problems.reserve(static_cast<std::size_t>(count));
    for (std::int64_t i = 0; i < count; ++i) {
      const auto passing = static_cast<TilePassing>(draw_of(3));
      const Kinds kinds{1 + draw_of(2), 1 + draw_of(2), draw_of(5), passing, is_drawn(), is_drawn()};
      Problem& problem = problems.emplace_back(kinds, random_);
      TileBlock block = problem.block();
      const bool is_stored = is_drawn();
      if (is_stored && !block.add) block.c = pipeline.place();
      if (is_drawn()) {
        const std::int64_t pitch = draw_of(4) * kCacheLineBytes;
        block.ahead = {reinterpret_cast<const std::byte*>(problem.a.data()), draw_of(4), pitch, draw_of(4) * kCacheLineBytes};
      }
      pipeline.make_room(block);
      pipeline.multiply(block);
      stored.emplace_back();
      if (!is_stored) continue;
      const std::int64_t columns = is_drawn() ? kWidth : 1 + draw_of(kinds.column_tiles * kTileColumns);
      Stored& to = stored.back().emplace(Stored{.rows = 1 + draw_of(problem.rows),
                                                .columns = std::min(columns, kinds.column_tiles * kTileColumns),
                                                .rounds = is_drawn(),
                                                .streams = columns == kWidth && kinds.column_tiles == 2 && is_drawn()});
      const As as = to.rounds ? (to.streams ? As::streamed_bfloat16 : As::bfloat16) : (to.streams ? As::streamed_float32 : As::float32);
      pipeline.store_last(to.rows, to.columns, as, reinterpret_cast<std::byte*>(to.to.data()), Stored::kPitch * (to.rounds ? 2 : 4));
    }
    pipeline.finish();
    release_tiles();
    fence_streaming_stores();
    for (std::size_t n = 0; n < problems.size(); ++n) {
      Problem& problem = problems[n];
      for (std::int64_t i = 0; i < problem.rows; ++i) {
        for (std::int64_t j = 0; j < (stored[n] ? Stored::kPitch : kWidth); ++j) {
          if (!stored[n]) {
            ASSERT_EQ(problem.c.data()[i * kWidth + j], problem.sum(i, j)) << i << ", " << j << " of block " << n;
            continue;
          }
          const float sum = i < stored[n]->rows && j < stored[n]->columns ? problem.sum(i, j) : 0;
          ASSERT_EQ(stored[n]->at(i, j), stored[n]->rounds ? static_cast<float>(bfloat16(sum)) : sum)
              << i << ", " << j << " of block " << n;
        }
      }
    }
  }
}

// A block adds to what an earlier one left, which has or has not been stored meanwhile.
TEST_F(TileBlocks, AddToSumsThatWait) {
  for (const bool stores : {false, true}) {
    for (const int others : {0, 1, 2}) {
      Problem first({2, 2, 2, TilePassing::none, false, true}, random_), second({2, 2, 3, TilePassing::none, true, true}, random_);
      Problem other({2, 2, 1, TilePassing::none, false, true}, random_);
      Lined<float> to(32 * kWidth);
      TilePipeline pipeline(nullptr);
      shape_tiles();
      pipeline.multiply(first.block());
      if (stores) pipeline.store_last(32, kWidth, TilePipeline::As::float32, reinterpret_cast<std::byte*>(to.data()), kWidth * 4);
      for (int i = 0; i < others; ++i) pipeline.multiply(other.block());
      TileBlock block = second.block();
      block.c = first.c.data();
      pipeline.make_room(block);
      pipeline.multiply(block);
      pipeline.finish();
      release_tiles();
      for (std::int64_t i = 0; i < 32; ++i) {
        for (std::int64_t j = 0; j < kWidth; ++j) {
          const float of_second = second.sum(i, j) - static_cast<float>((i * kWidth + j) % 7);
          ASSERT_EQ(first.c.data()[i * kWidth + j], first.sum(i, j) + of_second) << i << ", " << j;
          if (stores) {
            ASSERT_EQ(to.data()[i * kWidth + j], first.sum(i, j)) << i << ", " << j;
          }
        }
      }
    }
  }
}

// Few rows meet any number of panels, and what lies beside their sums is left as it is.
TEST_F(TileBlocks, MultiplySeveralPanels) {
  for (const std::int64_t rows : {1, 8, 15, 16, 17, 32}) {
    for (const std::int64_t panels : {1, 2, 3, 4, 7}) {
      for (const std::int64_t steps : {1, 2, 5}) {
        for (const bool add : {false, true}) {
          const std::int64_t row_tiles = divide_up(rows, kTileRows), depth = steps * kTileDepth, room = row_tiles * kTileRows;
          const std::int64_t to_next_panel = kWidth * (depth + 2), to_next_sums = (row_tiles == 1 ? rows : room) * kWidth + 16;
          Lined<bfloat16> a(static_cast<std::size_t>(room * depth)), b(static_cast<std::size_t>(panels * to_next_panel));
          Lined<float> c(static_cast<std::size_t>(panels * to_next_sums));
          draw(a.data(), room * depth, random_);
          draw(b.data(), panels * to_next_panel, random_);
          for (std::int64_t i = 0; i < panels * to_next_sums; ++i) c.data()[i] = static_cast<float>(i % 7);
          const std::vector<float> before(c.data(), c.data() + panels * to_next_sums);
          const TileBlock block{.row_tiles = row_tiles,
                                .steps = steps,
                                .a = a.data(),
                                .a_pitch = kTileDepth,
                                .a_below = kTileRows * depth,
                                .a_step = kTileRows * kTileDepth,
                                .b = b.data(),
                                .c = c.data(),
                                .c_pitch = kWidth,
                                .add = add};
          if (row_tiles == 1)
            shape_tiles_of_few(rows);
          else
            shape_tiles();
          multiply_panels(block, panels, to_next_panel, to_next_sums);
          release_tiles();
          for (std::int64_t i = 0; i < panels * to_next_sums; ++i) {
            const std::int64_t panel = i / to_next_sums, row = i % to_next_sums / kWidth, column = i % to_next_sums % kWidth;
            const bool is_there = row < (row_tiles == 1 ? rows : room);
            float sum = add || !is_there ? before[static_cast<std::size_t>(i)] : 0;
            for (std::int64_t p = 0; p < depth && is_there; ++p) {
              const bfloat16 of_a = a.data()[place_in_tiles(row, p, depth)];
              sum += static_cast<float>(of_a) * static_cast<float>(b.data()[panel * to_next_panel + place_in_panel(p, column)]);
            }
            ASSERT_EQ(c.data()[i], sum) << row << ", " << column << " of panel " << panel << ", " << rows << " rows";
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace moesh::backend::cpu
#endif
