// The blocks of a GEMM on AMX: 32 rows of a stay in the L1 cache, and panels of b stream past them. The sums of a block are stored while
// the next block is multiplied, since tiles and vectors work side by side.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/bfloat16.h"

namespace moesh::backend::cpu {

// What is multiplied: one or two tiles of rows with a packed panel of b, in steps of a tile's depth.
struct TileBlock {
  std::int64_t steps = 0;
  const bfloat16* a = nullptr;
  std::int64_t a_pitch = 0;     // from one row to the next
  std::int64_t a_below = 0;     // from a tile of rows to the next one
  std::int64_t a_step = 0;      // from one step to the next
  const bfloat16* b = nullptr;  // [step][pair of the depth][32 columns][2]
  float* c = nullptr;
  std::int64_t c_pitch = 0;
  bool add = false;  // whether the sums begin with what c holds
};

// Sums that wait to be stored: rows of 32, one after the other.
struct TileSums {
  enum class As : std::uint8_t { float32, bfloat16 };

  const float* from = nullptr;
  std::int64_t rows = 0;
  std::uint32_t columns = 0;  // a bit for each
  As as = As::float32;
  bool is_streamed = false;  // with non-temporal stores: all 32 columns, where a cache line begins
  std::byte* to = nullptr;
  std::int64_t to_pitch = 0;  // bytes from one row to the next
};

// What the L1 cache need not keep: rows of a that stream past a panel of b, panels that stream past rows, or nothing, as it holds all.
enum class TilePassing : std::uint8_t { a, b, none };

// Multiplies a block and stores all of `earlier` meanwhile, after which no rows are left of it.
using TileBlockKernel = void (*)(const TileBlock& block, TileSums& earlier);
// For one or two tiles of rows, and one or two of columns.
TileBlockKernel tile_block_kernel(std::int64_t row_tiles, std::int64_t column_tiles, TilePassing passing);

void store_tile_sums(TileSums& sums);

// Multiplies a block with several panels that the L1 cache holds. Each panel, and its sums, are so many elements after the one before. If
// there is one tile of rows, tiles 0 to 4 may have fewer rows than 16.
void multiply_panels(const TileBlock& first, std::int64_t row_tiles, std::int64_t panels, std::int64_t to_next_panel,
                     std::int64_t to_next_sums);

}  // namespace moesh::backend::cpu
