// The innermost loop of a matrix product: a small tile of the result, held in registers, for each kind of instructions.
#pragma once

#include <cstdint>

#include "run/cpu/element.h"
#include "run/cpu/isa.h"

namespace moesh::run::cpu {

// c[i][j] = the sum over p < depth of a[p][i] b[p][j], or that added to c. Each sum starts from zero and takes p in order, a
// step at a time, whatever the tile's size: so an element's bits do not depend on the tile it falls into.
// Packed operands are [step][row or column][element of the step]: a step is one fused multiply-add of W or, when P is
// bfloat16, the sum of two products. They have MicroKernels::rows and ::columns a step; a smaller tile skips the last ones.
template <typename P>
using MicroKernel = void (*)(std::int64_t steps, const P* a, const P* b, Wide<P>* c, std::int64_t c_pitch, bool add);

template <typename P>
struct MicroKernels {
  static constexpr std::int64_t kMostRows = 14;
  static constexpr std::int64_t kMostColumns = 32;
  static constexpr std::int64_t kStep = std::is_same_v<P, bfloat16> ? 2 : 1;

  std::int64_t rows = 0;
  std::int64_t columns = 0;
  MicroKernel<P> whole[kMostRows] = {};   // by the number of rows less one; all columns
  MicroKernel<P> narrow[kMostRows] = {};  // the first half of the columns
};

template <typename W>
const MicroKernels<W>& portable_kernels();
template <typename W>
const MicroKernels<W>& avx2_kernels();
template <typename W>
const MicroKernels<W>& avx512_kernels();
const MicroKernels<bfloat16>& avx512_bf16_kernels();

template <typename P>
const MicroKernels<P>& micro_kernels(Isa isa) {
#if defined(__x86_64__)
  if constexpr (std::is_same_v<P, bfloat16>) {
    return avx512_bf16_kernels();
  } else {
    if (isa >= Isa::avx512) return avx512_kernels<P>();
    if (isa == Isa::avx2) return avx2_kernels<P>();
  }
#endif
  (void)isa;
  return portable_kernels<P>();
}

// Whether products of bfloat16 take packed bfloat16.
inline bool packs_bfloat16(Isa isa) { return isa == Isa::avx512_bf16; }

}  // namespace moesh::run::cpu
