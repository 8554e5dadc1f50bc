// Micro kernels for bfloat16 operands on AMX: a block is four tiles of 16 x 16 sums, and a step multiplies tiles with 32 of the depth.
#include "backend/cpu/micro_kernel.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define MOESH_TARGET [[gnu::target("amx-tile,amx-bf16")]]

namespace moesh::backend::cpu {
namespace {

constexpr std::int64_t kColumns = 16;  // of a tile of sums

struct alignas(64) TileShapes {
  std::uint8_t palette = 1;
  std::uint8_t start_row = 0;
  std::uint8_t reserved[14] = {};
  std::uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  std::uint8_t rows[16] = {kTileRows, kTileRows, kTileRows, kTileRows, kTileRows, kTileRows, kTileRows, kTileRows};
};

MOESH_TARGET void begin() {
  static constexpr TileShapes kShapes;
  _tile_loadconfig(&kShapes);
}
MOESH_TARGET void end() { _tile_release(); }

// Tiles 0 to 3 are the sums, row by row, 4 and 5 are of a, 6 and 7 of b. With `add`, sums go on from what c holds.
template <int row_tiles, int column_tiles>
MOESH_TARGET void multiply_block(const Block<bfloat16>& block) {
  constexpr std::int64_t kTile = kTileRows * kTileDepth;
  constexpr auto kElement = static_cast<std::int64_t>(sizeof(bfloat16));
  constexpr std::int64_t a_bytes = kTileDepth * kElement;
  const std::int64_t b_bytes = block.b_pitch * kElement;
  const std::int64_t c_bytes = block.c_pitch * static_cast<std::int64_t>(sizeof(float));
  const bfloat16* a = block.a;
  const bfloat16* a_below = a + kTileRows * block.a_room;
  const bfloat16* b = block.b;
  const bfloat16* b_beside = b + kColumns * 2;
  float* c = block.c;
  float* below = c + kTileRows * block.c_pitch;
  if (block.add) {
    _tile_loadd(0, c, c_bytes);
    if constexpr (column_tiles == 2) _tile_loadd(1, c + kColumns, c_bytes);
    if constexpr (row_tiles == 2) _tile_loadd(2, below, c_bytes);
    if constexpr (row_tiles == 2 && column_tiles == 2) _tile_loadd(3, below + kColumns, c_bytes);
  } else {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
  }
  for (std::int64_t step = 0; step < block.steps; ++step) {
    _tile_loadd(6, b, b_bytes);
    _tile_loadd(4, a, a_bytes);
    _tile_dpbf16ps(0, 4, 6);
    if constexpr (column_tiles == 2) {
      _tile_loadd(7, b_beside, b_bytes);
      _tile_dpbf16ps(1, 4, 7);
    }
    if constexpr (row_tiles == 2) {
      _tile_loadd(5, a_below, a_bytes);
      _tile_dpbf16ps(2, 5, 6);
      if constexpr (column_tiles == 2) _tile_dpbf16ps(3, 5, 7);
    }
    a += kTile;
    a_below += kTile;
    b += kTileRows * block.b_pitch;
    b_beside += kTileRows * block.b_pitch;
  }
  _tile_stored(0, c, c_bytes);
  if constexpr (column_tiles == 2) _tile_stored(1, c + kColumns, c_bytes);
  if constexpr (row_tiles == 2) _tile_stored(2, below, c_bytes);
  if constexpr (row_tiles == 2 && column_tiles == 2) _tile_stored(3, below + kColumns, c_bytes);
}

}  // namespace

const MicroKernels<bfloat16>& amx_kernels() {
  static const MicroKernels<bfloat16> kernels{
      .chunk = 1024,
      .rows = 2 * kTileRows,
      .columns = 2 * kColumns,
      .row_step = kTileRows,
      .depth_step = kTileDepth,
      .begin = begin,
      .end = end,
      .whole = {multiply_block<1, 2>, multiply_block<2, 2>},
      .narrow = {multiply_block<1, 1>, multiply_block<2, 1>},
  };
  return kernels;
}

}  // namespace moesh::backend::cpu
#endif
