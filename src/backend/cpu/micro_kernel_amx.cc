// Micro-kernels for bfloat16 operands on AMX: a block is four tiles of 16 x 16 sums, and a step multiplies tiles of 32 elements of the
// depth.
#include "backend/cpu/micro_kernel.h"
#include "backend/cpu/tile_instructions.h"

#if defined(__x86_64__)

namespace moesh::backend::cpu {
namespace {

// Tiles 4 and 5 hold a, and 6 and 7 hold b. The tiles of the second 16 rows of a come after those of the first for the whole depth or, with
// `a_of_panels`, at each step.
template <int row_tiles, int column_tiles, bool a_of_panels = false>
void multiply_block(const Block<bfloat16>& block) {
  constexpr auto kElement = static_cast<std::int64_t>(sizeof(bfloat16));
  constexpr std::int64_t kTile = kTileRows * kTileDepth;
  constexpr std::int64_t a_step = a_of_panels ? 2 * kTile : kTile, a_bytes = kTileDepth * kElement;
  const std::int64_t b_bytes = block.b_pitch * kElement, b_step = kTileRows * block.b_pitch, steps = block.steps;
  const bfloat16* a = block.a;
  const bfloat16* a_below = a + (a_of_panels ? kTile : kTileRows * block.a_room);
  const bfloat16* b = block.b;
  float* const below = block.c + kTileRows * block.c_pitch;
  begin_sums<row_tiles, column_tiles>(block.c, below, block.c_pitch, block.add);
  for (std::int64_t step = 0; step < steps; ++step) {
    read_tile<6>(b, b_bytes);
    read_tile<4>(a, a_bytes);
    add_tile_product<0, 4, 6>();
    if constexpr (column_tiles == 2) {
      read_tile<7, kBeside>(b, b_bytes);
      add_tile_product<1, 4, 7>();
    }
    if constexpr (row_tiles == 2) {
      read_tile<5>(a_below, a_bytes);
      add_tile_product<2, 5, 6>();
      if constexpr (column_tiles == 2) add_tile_product<3, 5, 7>();
    }
    a += a_step;
    a_below += a_step;
    b += b_step;
  }
  write_sums<row_tiles, column_tiles>(block.c, below, block.c_pitch);
}

}  // namespace

const MicroKernels<bfloat16>& amx_kernels() {
  static const MicroKernels<bfloat16> kernels{
      .rows = 2 * kTileRows,
      .columns = 2 * kTileColumns,
      .row_step = kTileRows,
      .depth_step = kTileDepth,
      .begin = shape_tiles,
      .end = release_tiles,
      .whole = {multiply_block<1, 2>, multiply_block<2, 2>},
      .narrow = {multiply_block<1, 1>, multiply_block<2, 1>},
      .of_panels = multiply_block<2, 2, true>,
  };
  return kernels;
}

}  // namespace moesh::backend::cpu
#endif
