// The innermost loop of a matrix product: a small block of the result, held in registers, for each kind of
// instructions.
#pragma once

#include <algorithm>
#include <cstdint>

#include "backend/cpu/isa.h"
#include "backend/element.h"

namespace moesh::backend::cpu {

// Of AMX: rows, and bfloat16 of the depth.
inline constexpr std::int64_t kTileRows = 16;
inline constexpr std::int64_t kTileDepth = 32;

// c[i][j] = the sum over a chunk of a[i][p] b[p][j], or that and c. The terms are added in order, whatever the block's
// size and place: so an element's bits do not depend on the block it falls into. Both operands lie as the kernels ask
// for.
template <typename P>
struct Block {
  std::int64_t steps = 0;
  const P* a = nullptr;
  std::int64_t a_room = 0;   // of the depth, that packed rows have; of rows that lie elsewhere, from one to the next
  std::int64_t a_ahead = 0;  // of these: how far behind what is taken lies what is asked for
  const P* b = nullptr;
  std::int64_t b_pitch = 0;   // from step to step; a step has its columns side by side
  std::int64_t b_beside = 0;  // from a panel to the next, of kernels that take two
  Wide<P>* c = nullptr;
  bfloat16* rounded = nullptr;  // where sums go rounded, not to c; of kernels that round
  std::int64_t c_pitch = 0;
  bool add = false;
  // What kernels of panels ask for meanwhile, so many bytes a step, into the second cache. Those in tiles do not.
  const P* ahead = nullptr;
  std::int64_t ahead_bytes = 0;
};

template <typename P>
using MicroKernel = void (*)(const Block<P>& block);

// A block and what makes it.
template <typename P>
struct BlockToMake {
  Block<P> block;
  MicroKernel<P> kernel;
  std::int64_t a_step = 0;  // from one step of the rows to the next
};

// For rows that run where they lie, block.a_room from one to the next.
template <typename P>
struct KernelsOfRuns {
  static constexpr std::int64_t kMostRows = 32;

  std::int64_t rows = 0;              // of a block at most; 0: there are none
  MicroKernel<P> of[kMostRows] = {};  // by their number less one

  MicroKernel<P> find(std::int64_t count) const { return of[count - 1]; }
};

template <typename P>
struct MicroKernels {
  // Panels of b, and rows of a for most kernels, lie [step][line]: with so many neighbours of the depth together.
  static constexpr std::int64_t kTogether = std::is_same_v<P, bfloat16> ? 2 : 1;
  static constexpr std::int64_t kMostRows = 32;
  static constexpr std::int64_t kMostColumns = 32;

  std::int64_t chunk = 0;  // of the depth, that is packed at a time, at most: a multiple of depth_step
  std::int64_t rows = 0;   // of a block at most
  std::int64_t columns = 0;
  std::int64_t row_step = 1;            // a block has a multiple of so many rows
  std::int64_t depth_step = kTogether;  // of a step of a kernel; packed operands end with zeros
  std::int64_t row_room = 0;            // lines that the rows of a block take; 0: they lie in tiles, [row / 16][step][row][depth]
  bool rounds = false;
  void (*begin)() = nullptr;  // before and after a thread calls kernels
  void (*end)() = nullptr;
  // For all columns and for half of them, by the number of row steps less one.
  MicroKernel<P> whole[kMostRows] = {};
  MicroKernel<P> narrow[kMostRows] = {};
  // Rows that are read where they lie, by a panel, by half of one, and by two of them. A chunk whose last step is not full is for the
  // others: these read what stands behind it.
  KernelsOfRuns<P> runs = {};
  KernelsOfRuns<P> narrow_runs = {};
  KernelsOfRuns<P> wide_runs = {};
  // For as many rows as a block may have, where they lie as an earlier product gave them, panel by panel: [panel][row][column]. The
  // columns of that product are the depth of this one.
  MicroKernel<P> of_panels = nullptr;

  // Of a depth: chunks share it evenly.
  std::int64_t chunk_of(std::int64_t depth) const {
    if (depth <= chunk) return chunk;
    const std::int64_t chunks = (depth + chunk - 1) / chunk;
    return ((depth + chunks - 1) / chunks + depth_step - 1) / depth_step * depth_step;
  }

  // Lines that the rows of a block take, packed by step or in tiles.
  std::int64_t block_lines(std::int64_t of_block) const { return row_room > 0 ? row_room : of_block; }

  MicroKernel<P> find(bool is_narrow, std::int64_t count) const {
    const auto i = static_cast<std::size_t>((count - 1) / row_step);
    return is_narrow ? narrow[i] : whole[i];
  }
};

// A panel of b that is not packed yet, its columns side by side.
template <typename P, typename B>
struct Unpacked {
  const B* lines = nullptr;
  std::int64_t pitch = 0;  // from one of the depth to the next
  std::int64_t depth = 0;
  P* packed = nullptr;  // where to
};

// Multiplies a block of as many rows as there may be with such a panel, whatever block.b says, and packs it on the way. Rows are packed, or
// of runs.
template <typename P, typename B>
using PackingKernel = void (*)(const Block<P>& block, const Unpacked<P, B>& b);

// Few rows by many columns of b, which is read where it lies, its columns side by side: c = the sum over a chunk, in
// the order of blocks. Rows go by groups, packed as the rows of a block, which read a line of b from memory once.
template <typename P, typename B>
struct Strip {
  std::int64_t depth = 0;  // of the chunk, at least one
  std::int64_t rows = 0;
  std::int64_t columns = 0;  // a multiple of those of a block
  const P* a = nullptr;
  std::int64_t group_rows = 0;  // at most kMostTogether
  std::int64_t a_pitch = 0;     // from group to group
  const B* b = nullptr;
  std::int64_t b_pitch = 0;  // from one of the depth to the next
  const B* next = nullptr;   // lines that are likely read after those of b, with its pitch
  Wide<P>* c = nullptr;
  std::int64_t c_pitch = 0;

  static constexpr std::int64_t kMostTogether = 8;
};

template <typename P, typename B>
using StripKernel = void (*)(const Strip<P, B>& strip);

// Blocks of tiles that share a panel: they meet a piece of it while it is in the first cache. Longer pieces leave it too early, and a
// machine is slow to store tiles when it has stored none for a while.
inline constexpr std::int64_t kBlocksTogether = 2;
inline void make_in_pieces(BlockToMake<bfloat16>* blocks, std::int64_t count) {
  constexpr std::int64_t kStepsOfPiece = 8;
  const std::int64_t steps = blocks[0].block.steps;
  for (std::int64_t step = 0; step == 0 || step < steps; step += kStepsOfPiece) {
    for (std::int64_t i = 0; i < count; ++i) {
      Block<bfloat16>& block = blocks[i].block;
      block.steps = std::min(kStepsOfPiece, steps - step);
      blocks[i].kernel(block);
      block.a += block.steps * blocks[i].a_step;
      block.b += block.steps * block.b_pitch * kTileRows;
      block.add = true;
    }
  }
}

#define MOESH_READS_B(P, B, isa)                                                \
  void multiply_strip_##isa(const Strip<P, B>& strip);                          \
  void multiply_and_pack_##isa(const Block<P>& block, const Unpacked<P, B>& b); \
  void multiply_runs_and_pack_##isa(const Block<P>& block, const Unpacked<P, B>& b)
MOESH_READS_B(float, float, avx2);
MOESH_READS_B(float, bfloat16, avx2);
MOESH_READS_B(float, float, avx512);
MOESH_READS_B(float, bfloat16, avx512);
MOESH_READS_B(bfloat16, bfloat16, avx512_bf16);
#undef MOESH_READS_B

// Kernels that read b where it lies. Null where there are none for these operands. None is written in tiles: a chunk of
// theirs adds up in another order.
template <typename P, typename B>
struct InPlaceKernels {
  StripKernel<P, B> strip = nullptr;
  PackingKernel<P, B> pack = nullptr;
  PackingKernel<P, B> pack_for_runs = nullptr;
};

template <typename P, typename B>
InPlaceKernels<P, B> in_place_kernels(Isa isa) {
#if defined(__x86_64__)
  if constexpr (std::is_same_v<P, bfloat16> && std::is_same_v<B, bfloat16>) {
    if (isa == Isa::avx512_bf16) return {multiply_strip_avx512_bf16, multiply_and_pack_avx512_bf16, multiply_runs_and_pack_avx512_bf16};
  } else if constexpr (std::is_same_v<P, float>) {
    if (isa >= Isa::avx512) return {multiply_strip_avx512, multiply_and_pack_avx512, multiply_runs_and_pack_avx512};
    if (isa == Isa::avx2) return {multiply_strip_avx2, multiply_and_pack_avx2, multiply_runs_and_pack_avx2};
  }
#endif
  (void)isa;
  return {};
}

template <typename P>
const MicroKernels<P>& portable_kernels();
template <typename P>
const MicroKernels<P>& avx2_kernels();
template <typename P>
const MicroKernels<P>& avx512_kernels();
const MicroKernels<bfloat16>& avx512_bf16_kernels();
const MicroKernels<bfloat16>& amx_kernels();

// Rounds to nearest even, and numbers too small for a whole mantissa to zero.
void store_avx512_bf16(const float* from, std::int64_t from_pitch, std::int64_t rows, std::int64_t columns, bfloat16* to,
                       std::int64_t to_pitch);

// Columns are a multiple of 32, and lines begin with a cache line: settle_late_writes() is to follow.
void store_past_caches_avx512(const float* from, std::int64_t from_pitch, std::int64_t rows, std::int64_t columns, bfloat16* to,
                              std::int64_t to_pitch);
void store_past_caches_avx512(const float* from, std::int64_t from_pitch, std::int64_t rows, std::int64_t columns, float* to,
                              std::int64_t to_pitch);

// Whether products of bfloat16 take it as it is; else they widen it to float32.
inline bool packs_bfloat16(Isa isa) { return isa >= Isa::avx512_bf16; }

template <typename P>
const MicroKernels<P>& micro_kernels(Isa isa) {
#if defined(__x86_64__)
  if constexpr (std::is_same_v<P, bfloat16>) {
    assert(packs_bfloat16(isa));
    return isa == Isa::amx_bf16 ? amx_kernels() : avx512_bf16_kernels();
  } else {
    if (isa >= Isa::avx512) return avx512_kernels<P>();
    if (isa == Isa::avx2) return avx2_kernels<P>();
  }
#endif
  (void)isa;
  if constexpr (!std::is_same_v<P, bfloat16>) return portable_kernels<P>();
}

}  // namespace moesh::backend::cpu
