// The micro-kernels of GEMM for each instruction set: the innermost loop, which computes a register block of the result.
#pragma once

#include <algorithm>
#include <cstdint>

#include "backend/cpu/cache_line.h"
#include "backend/cpu/isa.h"
#include "backend/element.h"
#include "base/rounding.h"

namespace moesh::backend::cpu {

// An AMX tile of an operand: its rows, and its bfloat16 elements along the depth.
inline constexpr std::int64_t kTileRows = 16;
inline constexpr std::int64_t kTileDepth = 32;

// What a micro-kernel computes: c[i][j] = the sum over a chunk of a[i][p] b[p][j], or c[i][j] plus that sum. The terms are added in order,
// whatever the size and place of the block, so that the bits of an element do not depend on the block it falls into. Both operands have the
// layout that MicroKernels requires.
template <typename P>
struct Block {
  std::int64_t steps = 0;
  const P* a = nullptr;
  std::int64_t a_room = 0;   // packed rows: the depth for which they have room; rows read in place: their pitch
  std::int64_t a_ahead = 0;  // rows read in place: prefetch distance, in elements
  const P* b = nullptr;
  std::int64_t b_pitch = 0;   // from one step to the next; the columns of a step are contiguous
  std::int64_t b_beside = 0;  // from one panel to the next, for kernels that take two
  Wide<P>* c = nullptr;
  bfloat16* rounded = nullptr;  // where sums are stored rounded, instead of in c; only for kernels that round
  std::int64_t c_pitch = 0;
  bool add = false;
  // What `of_panels` kernels prefetch into the L2 cache meanwhile, moving on by `ahead_bytes` at each step. The AMX kernels do not.
  const P* ahead = nullptr;
  std::int64_t ahead_bytes = 0;
};

template <typename P>
using MicroKernel = void (*)(const Block<P>& block);

// A block and the micro-kernel that computes it.
template <typename P>
struct BlockToMake {
  Block<P> block;
  MicroKernel<P> kernel;
  std::int64_t a_step = 0;  // from one step of a to the next
};

// Micro-kernels that read contiguous rows of a in place, at a pitch of block.a_room.
template <typename P>
struct KernelsOfRuns {
  static constexpr std::int64_t kMostRows = 32;

  std::int64_t rows = 0;              // largest number of rows of a block; 0 if there are no such kernels
  MicroKernel<P> of[kMostRows] = {};  // indexed by the number of rows minus 1

  MicroKernel<P> find(std::int64_t count) const { return of[count - 1]; }
};

template <typename P>
struct MicroKernels {
  // Packed panels of b, and packed rows of a for most kernels, are [step][line], with this many neighbours of the depth together in each
  // line.
  static constexpr std::int64_t kTogether = std::is_same_v<P, bfloat16> ? 2 : 1;
  static constexpr std::int64_t kMostRows = 32;
  static constexpr std::int64_t kMostColumns = 32;

  std::int64_t chunk = 0;  // largest depth that is packed at a time: a multiple of depth_step
  std::int64_t rows = 0;   // largest number of rows of a block
  std::int64_t columns = 0;
  std::int64_t row_step = 1;            // the rows of a block are a multiple of this
  std::int64_t depth_step = kTogether;  // depth of a step of a kernel; packed operands are padded to it with zeros
  std::int64_t row_room = 0;            // lines that the packed rows of a block take; 0: they are in tiles, [row / 16][step][row][depth]
  bool rounds = false;
  void (*begin)() = nullptr;  // called before and after a thread calls kernels; see KernelsInUse
  void (*end)() = nullptr;
  // For all columns and for half of them, indexed by the number of row steps minus 1.
  MicroKernel<P> whole[kMostRows] = {};
  MicroKernel<P> narrow[kMostRows] = {};
  // Rows that are read in place, with a panel, with half of one, and with two of them. A chunk whose last step is not full must use the
  // other kernels, because these read past its end.
  KernelsOfRuns<P> runs = {};
  KernelsOfRuns<P> narrow_runs = {};
  KernelsOfRuns<P> wide_runs = {};
  // For a full block of rows in the layout in which an earlier product computed them, one panel after another: [panel][row][column]. The
  // columns of that product are the depth of this one.
  MicroKernel<P> of_panels = nullptr;

  // Depth of the chunks into which a depth is divided evenly.
  std::int64_t chunk_of(std::int64_t depth) const {
    if (depth <= chunk) return chunk;
    const std::int64_t chunks = divide_up(depth, chunk);
    return round_up(divide_up(depth, chunks), depth_step);
  }

  // Lines that a packed block of rows takes, packed by step or in tiles.
  std::int64_t block_lines(std::int64_t of_block) const { return row_room > 0 ? row_room : of_block; }

  MicroKernel<P> find(bool is_narrow, std::int64_t count) const {
    const auto i = static_cast<std::size_t>((count - 1) / row_step);
    return is_narrow ? narrow[i] : whole[i];
  }
};

// Has a thread call kernels during its lifetime.
template <typename P>
class KernelsInUse {
 public:
  explicit KernelsInUse(const MicroKernels<P>& kernels) : end_(kernels.end) {
    if (kernels.begin != nullptr) kernels.begin();
  }
  ~KernelsInUse() {
    if (end_ != nullptr) end_();
  }
  KernelsInUse(const KernelsInUse&) = delete;
  KernelsInUse& operator=(const KernelsInUse&) = delete;

 private:
  void (*end_)();
};

// A panel of b that is not packed yet; its columns are contiguous.
template <typename P, typename B>
struct Unpacked {
  const B* lines = nullptr;
  std::int64_t pitch = 0;  // from one line of the depth to the next
  std::int64_t depth = 0;
  P* packed = nullptr;  // where it is packed
};

// Multiplies a full block of rows with such a panel, ignoring block.b, and packs the panel on the way. The rows are packed or, for
// pack_for_runs, contiguous and read in place.
template <typename P, typename B>
using PackingKernel = void (*)(const Block<P>& block, const Unpacked<P, B>& b);

// Few rows times many columns of b, which is read in place; its columns are contiguous. c = the sum over a chunk, with the terms in the
// same order as in blocks. The rows go by groups, each packed like the rows of a block; together the groups read a line of b from memory
// once.
template <typename P, typename B>
struct Strip {
  std::int64_t depth = 0;  // of the chunk, at least 1
  std::int64_t rows = 0;
  std::int64_t columns = 0;  // a multiple of the columns of a block
  const P* a = nullptr;
  std::int64_t group_rows = 0;  // at most kMostTogether
  std::int64_t a_pitch = 0;     // from one group to the next
  const B* b = nullptr;
  std::int64_t b_pitch = 0;  // from one line of the depth to the next
  const B* next = nullptr;   // lines that are likely read after those of b, at the same pitch
  Wide<P>* c = nullptr;
  std::int64_t c_pitch = 0;

  static constexpr std::int64_t kMostTogether = 8;
};

template <typename P, typename B>
using StripKernel = void (*)(const Strip<P, B>& strip);

// Computes blocks of tiles that share a panel of b, one piece of the depth at a time, so that all of them read a piece while it is in the
// L1 cache. Longer pieces would leave the cache too early, and CPUs are slow to store tiles if they have stored none for a while.
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

// Kernels that read b in place; null if there are none for these operands. There are none for AMX, because tiles add up a chunk in another
// order.
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

// Rounds to nearest even, and subnormal numbers to zero.
void store_avx512_bf16(const float* from, std::int64_t from_pitch, std::int64_t rows, std::int64_t columns, bfloat16* to,
                       std::int64_t to_pitch);

// Uses non-temporal stores, so that fence_streaming_stores() must follow. Columns are a multiple of 32, and lines begin on a cache line.
void stream_avx512(const float* from, std::int64_t from_pitch, std::int64_t rows, std::int64_t columns, float* to, std::int64_t to_pitch);

// Whether GEMMs of bfloat16 read it as it is; otherwise they widen it to float32.
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
