// The instructions of AMX, in inline assembly, because the intrinsics do not tell the compiler all the memory that they read: GCC 12 takes
// it that only 8 bytes of the shapes are read, and that tile loads read no memory.
#pragma once

#include <cstdint>

#include "backend/cpu/micro_kernel.h"

#if defined(__x86_64__)
namespace moesh::backend::cpu {

inline constexpr std::int64_t kTileColumns = 16;  // columns of a tile of sums
inline constexpr int kBeside = 64;                // bytes from a tile to the next one to its right, for sums and for b

// Every tile has rows of 64 bytes: 16 of them if nothing else is said.
struct alignas(64) TileShapes {
  std::uint8_t palette = 1;
  std::uint8_t start_row = 0;
  std::uint8_t reserved[14] = {};
  std::uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  std::uint8_t rows[16] = {kTileRows, kTileRows, kTileRows, kTileRows, kTileRows, kTileRows, kTileRows, kTileRows};
};

inline void shape_tiles() {
  static constexpr TileShapes kShapes;
  asm volatile("ldtilecfg %0" : : "m"(kShapes));
}
// Tiles 0 to 3, of sums, and tile 4, of a, have so many rows: instructions take as long as they have rows.
inline void shape_tiles_of_few(std::int64_t rows) {
  TileShapes shapes;
  for (const int tile : {0, 1, 2, 3, 4}) shapes.rows[tile] = static_cast<std::uint8_t>(rows);
  asm volatile("ldtilecfg %0" : : "m"(shapes));
}
inline void release_tiles() { asm volatile("tilerelease"); }

template <int tile>
void zero_tile() {
  asm volatile("tilezero %%tmm%c0" : : "i"(tile));
}
template <int tile, int offset = 0>
void read_tile(const void* from, std::int64_t row_bytes) {
  asm volatile("tileloadd %c3(%0,%1,1), %%tmm%c2" : : "r"(from), "r"(row_bytes), "i"(tile), "i"(offset) : "memory");
}
// For what the L1 cache need not keep.
template <int tile, int offset = 0>
void read_passing_tile(const void* from, std::int64_t row_bytes) {
  asm volatile("tileloaddt1 %c3(%0,%1,1), %%tmm%c2" : : "r"(from), "r"(row_bytes), "i"(tile), "i"(offset) : "memory");
}
template <int tile, int offset = 0>
void write_tile(void* to, std::int64_t row_bytes) {
  asm volatile("tilestored %%tmm%c2, %c3(%0,%1,1)" : : "r"(to), "r"(row_bytes), "i"(tile), "i"(offset) : "memory");
}
template <int sums, int a, int b>
void add_tile_product() {
  asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(sums), "i"(a), "i"(b));
}

// Tiles 0 and 1 hold sums that are at c; tiles 2 and 3, if there are two groups, sums that are at `others`, those of the next rows for
// example. They begin with what is there if they are added to it, and with zeros otherwise.
template <int groups, int column_tiles>
void begin_sums(const float* c, const float* others, std::int64_t pitch, bool add) {
  if (!add) {
    zero_tile<0>();
    zero_tile<1>();
    zero_tile<2>();
    zero_tile<3>();
    return;
  }
  const std::int64_t bytes = pitch * static_cast<std::int64_t>(sizeof(float));
  read_tile<0>(c, bytes);
  if constexpr (column_tiles == 2) read_tile<1, kBeside>(c, bytes);
  if constexpr (groups == 2) read_tile<2>(others, bytes);
  if constexpr (groups == 2 && column_tiles == 2) read_tile<3, kBeside>(others, bytes);
}
template <int groups, int column_tiles>
void write_sums(float* c, float* others, std::int64_t pitch) {
  const std::int64_t bytes = pitch * static_cast<std::int64_t>(sizeof(float));
  write_tile<0>(c, bytes);
  if constexpr (column_tiles == 2) write_tile<1, kBeside>(c, bytes);
  if constexpr (groups == 2) write_tile<2>(others, bytes);
  if constexpr (groups == 2 && column_tiles == 2) write_tile<3, kBeside>(others, bytes);
}

}  // namespace moesh::backend::cpu
#endif
