#include "backend/cpu/tile_block.h"

#include <gtest/gtest.h>

#if defined(__x86_64__)
#include <cstring>
#include <random>
#include <vector>

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

// One block is multiplied while the sums of another are stored in one of the four ways.
class TileBlocks : public testing::Test {
 protected:
  void SetUp() override {
    test::emulate_tiles();
    if (!can_run(Isa::amx_bf16)) GTEST_SKIP() << "no AMX, and no AVX-512 with bfloat16 to emulate it";
  }

  void multiply(const Kinds& kinds, TileSums& earlier) {
    const std::int64_t rows = kinds.row_tiles * kTileRows, depth = kinds.steps * kTileDepth, pitch = depth + 6;
    Lined<bfloat16> a(static_cast<std::size_t>(rows * pitch)), b(static_cast<std::size_t>(depth * kWidth));
    Lined<float> c(static_cast<std::size_t>(rows * kWidth));
    draw(a.data(), rows * pitch, random_);
    draw(b.data(), depth * kWidth, random_);
    for (std::int64_t i = 0; i < rows * kWidth; ++i) c.data()[i] = static_cast<float>(i % 7);
    const std::vector<float> before(c.data(), c.data() + rows * kWidth);
    const auto place_of_a = [&](std::int64_t row, std::int64_t p) {
      return kinds.rows_are_packed ? place_in_tiles(row, p, depth) : row * pitch + p;
    };
    const TileBlock block{.steps = kinds.steps,
                          .a = a.data(),
                          .a_pitch = kinds.rows_are_packed ? kTileDepth : pitch,
                          .a_below = kTileRows * (kinds.rows_are_packed ? depth : pitch),
                          .a_step = kinds.rows_are_packed ? kTileRows * kTileDepth : kTileDepth,
                          .b = b.data(),
                          .c = c.data(),
                          .c_pitch = kWidth,
                          .add = kinds.add};
    shape_tiles();
    tile_block_kernel(kinds.row_tiles, kinds.column_tiles, kinds.passing)(block, earlier);
    release_tiles();
    EXPECT_EQ(earlier.rows, 0);
    for (std::int64_t i = 0; i < rows; ++i) {
      for (std::int64_t j = 0; j < kWidth; ++j) {
        float sum = kinds.add || j >= kinds.column_tiles * kTileColumns ? before[static_cast<std::size_t>(i * kWidth + j)] : 0;
        for (std::int64_t p = 0; p < depth && j < kinds.column_tiles * kTileColumns; ++p) {
          sum += static_cast<float>(a.data()[place_of_a(i, p)]) * static_cast<float>(b.data()[place_in_panel(p, j)]);
        }
        ASSERT_EQ(c.data()[i * kWidth + j], sum) << i << ", " << j << " of " << kinds.row_tiles << " x " << kinds.column_tiles;
      }
    }
  }

  std::mt19937 random_{7};
};

TEST_F(TileBlocks, AreTheProductsWhateverTheirSizeAndLayout) {
  for (const std::int64_t row_tiles : {1, 2}) {
    for (const std::int64_t column_tiles : {1, 2}) {
      for (const std::int64_t steps : {0, 1, 2, 3, 16}) {
        for (const TilePassing passing : {TilePassing::a, TilePassing::b, TilePassing::none}) {
          for (int kind = 0; kind < 4; ++kind) {
            TileSums none;
            multiply({row_tiles, column_tiles, steps, passing, (kind & 1) != 0, (kind & 2) != 0}, none);
          }
        }
      }
    }
  }
}

// Rows and columns that are not there are left as they are.
TEST_F(TileBlocks, StoreEarlierSumsMeanwhile) {
  constexpr std::int64_t kRows = 32, kPitch = 64;
  for (const bool rounds : {false, true}) {
    for (const bool streams : {false, true}) {
      for (const std::int64_t rows : {1, 5, 16, 31, 32}) {
        for (const int columns : {1, 15, 16, 17, 32}) {
          if (streams && columns < kWidth) continue;
          for (const std::int64_t steps : {0, 1, 3, 16, 40}) {
            Lined<float> from(kRows * kWidth), to(kRows * kPitch);
            for (std::int64_t i = 0; i < kRows * kWidth; ++i) from.data()[i] = 1 + static_cast<float>(i) / 256;
            const std::int64_t size = rounds ? 2 : 4;
            TileSums earlier{.from = from.data(),
                             .rows = rows,
                             .columns = columns == kWidth ? ~0u : (1u << columns) - 1,
                             .as = rounds ? TileSums::As::bfloat16 : TileSums::As::float32,
                             .is_streamed = streams,
                             .to = reinterpret_cast<std::byte*>(to.data()),
                             .to_pitch = kPitch * size};
            multiply({2, 2, steps, TilePassing::b, false, false}, earlier);
            fence_streaming_stores();
            for (std::int64_t i = 0; i < kRows; ++i) {
              for (std::int64_t j = 0; j < kPitch; ++j) {
                const float sum = i < rows && j < columns ? from.data()[i * kWidth + j] : 0;
                const float stored =
                    rounds ? static_cast<float>(reinterpret_cast<bfloat16*>(to.data())[i * kPitch + j]) : to.data()[i * kPitch + j];
                ASSERT_EQ(stored, rounds ? static_cast<float>(bfloat16(sum)) : sum) << i << ", " << j << " of " << rows << " x " << columns;
              }
            }
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
          const TileBlock block{.steps = steps,
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
          multiply_panels(block, row_tiles, panels, to_next_panel, to_next_sums);
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
