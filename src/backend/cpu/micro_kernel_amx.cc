// Micro-kernels for bfloat16 operands on AMX: a block is four tiles of 16 x 16 sums, and a step multiplies tiles of 32 elements of the
// depth.
#include "backend/cpu/micro_kernel.h"

#if defined(__x86_64__)

namespace moesh::backend::cpu {
namespace {

constexpr std::int64_t kColumns = 16;  // columns of a tile of sums
constexpr int kBeside = 64;            // bytes from a tile to the next one to its right, for sums and for b

struct alignas(64) TileShapes {
  std::uint8_t palette = 1;
  std::uint8_t start_row = 0;
  std::uint8_t reserved[14] = {};
  std::uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  std::uint8_t rows[16] = {kTileRows, kTileRows, kTileRows, kTileRows, kTileRows, kTileRows, kTileRows, kTileRows};
};

// Inline assembly, because the intrinsics do not tell the compiler all the memory that they read: GCC 12 takes it that only 8 bytes of the
// shapes are read, and that tile loads read no memory.
void begin() {
  static constexpr TileShapes kShapes;
  asm volatile("ldtilecfg %0" : : "m"(kShapes));
}
void end() { asm volatile("tilerelease"); }

template <int tile>
void zero() {
  asm volatile("tilezero %%tmm%c0" : : "i"(tile));
}
template <int tile, int offset = 0>
void read(const void* from, std::int64_t row_bytes) {
  asm volatile("tileloadd %c3(%0,%1,1), %%tmm%c2" : : "r"(from), "r"(row_bytes), "i"(tile), "i"(offset) : "memory");
}
template <int tile, int offset = 0>
void write(void* to, std::int64_t row_bytes) {
  asm volatile("tilestored %%tmm%c2, %c3(%0,%1,1)" : : "r"(to), "r"(row_bytes), "i"(tile), "i"(offset) : "memory");
}
template <int sums, int a, int b>
void add_product() {
  asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(sums), "i"(a), "i"(b));
}

// Layouts of the rows of a.
enum class Rows : std::uint8_t {
  packed,     // in tiles: those of 16 rows, for a depth of block.a_room, then those of the next 16 rows
  runs,       // in place: each row is contiguous, at a pitch of block.a_room
  of_panels,  // in tiles: two for 32 rows, then two for the next 32 elements of the depth
};

// Tiles 0 to 3 hold the sums, row by row, 4 and 5 hold a, and 6 and 7 hold b. With `add`, the sums begin with what c holds.
template <int row_tiles, int column_tiles, Rows rows = Rows::packed>
void multiply_block(const Block<bfloat16>& block) {
  constexpr auto kElement = static_cast<std::int64_t>(sizeof(bfloat16));
  constexpr std::int64_t kTile = kTileRows * kTileDepth;
  constexpr std::int64_t a_step = rows == Rows::runs ? kTileDepth : rows == Rows::packed ? kTile : 2 * kTile;
  const std::int64_t a_bytes = (rows == Rows::runs ? block.a_room : kTileDepth) * kElement;
  const std::int64_t b_bytes = block.b_pitch * kElement, b_step = kTileRows * block.b_pitch, steps = block.steps;
  const std::int64_t c_bytes = block.c_pitch * static_cast<std::int64_t>(sizeof(float));
  const bfloat16* a = block.a;
  const bfloat16* a_below = a + (rows == Rows::of_panels ? kTile : kTileRows * block.a_room);
  const bfloat16* b = block.b;
  float* const c = block.c;
  float* const below = c + kTileRows * block.c_pitch;
  if (block.add) {
    read<0>(c, c_bytes);
    if constexpr (column_tiles == 2) read<1, kBeside>(c, c_bytes);
    if constexpr (row_tiles == 2) read<2>(below, c_bytes);
    if constexpr (row_tiles == 2 && column_tiles == 2) read<3, kBeside>(below, c_bytes);
  } else {
    zero<0>();
    zero<1>();
    zero<2>();
    zero<3>();
  }
  for (std::int64_t step = 0; step < steps; ++step) {
    read<6>(b, b_bytes);
    read<4>(a, a_bytes);
    add_product<0, 4, 6>();
    if constexpr (column_tiles == 2) {
      read<7, kBeside>(b, b_bytes);
      add_product<1, 4, 7>();
    }
    if constexpr (row_tiles == 2) {
      read<5>(a_below, a_bytes);
      add_product<2, 5, 6>();
      if constexpr (column_tiles == 2) add_product<3, 5, 7>();
    }
    a += a_step;
    a_below += a_step;
    b += b_step;
  }
  write<0>(c, c_bytes);
  if constexpr (column_tiles == 2) write<1, kBeside>(c, c_bytes);
  if constexpr (row_tiles == 2) write<2>(below, c_bytes);
  if constexpr (row_tiles == 2 && column_tiles == 2) write<3, kBeside>(below, c_bytes);
}

KernelsOfRuns<bfloat16> of_runs() {
  KernelsOfRuns<bfloat16> runs{.rows = 2 * kTileRows};
  runs.of[runs.rows - 1] = multiply_block<2, 2, Rows::runs>;
  return runs;
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
      .runs = of_runs(),
      .of_panels = multiply_block<2, 2, Rows::of_panels>,
  };
  return kernels;
}

}  // namespace moesh::backend::cpu
#endif
