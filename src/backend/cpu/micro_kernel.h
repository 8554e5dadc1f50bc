// The innermost loop of a matrix product: a small tile of the result, held in registers, for each kind of instructions.
#pragma once

#include <cstdint>

#include "backend/cpu/isa.h"
#include "backend/element.h"

namespace moesh::backend::cpu {

// c[i][j] = the sum over p < steps of a[p][i] b[p][j], or that added to c. Each sum starts from zero and takes p in
// order, whatever the tile's size: so an element's bits do not depend on the tile it falls into. Packed operands of
// type P have MicroKernels::rows and ::columns for each p, a smaller tile skips the last ones. What is packed in
// bfloat16 has two neighbours of the depth for each, and a step adds both products.
template <typename P>
using MicroKernel = void (*)(std::int64_t steps, const P* a, const P* b, Wide<P>* c, std::int64_t c_pitch, bool add);

template <typename P>
struct MicroKernels {
  static constexpr std::int64_t kStep = std::is_same_v<P, bfloat16> ? 2 : 1;  // of the depth
  static constexpr std::int64_t kMostRows = 14;
  static constexpr std::int64_t kMostColumns = 32;

  std::int64_t rows = 0;
  std::int64_t columns = 0;
  MicroKernel<P> whole[kMostRows] = {};   // by the number of rows less one; all columns
  MicroKernel<P> narrow[kMostRows] = {};  // the first half of the columns
};

template <typename P>
const MicroKernels<P>& portable_kernels();
template <typename P>
const MicroKernels<P>& avx2_kernels();
template <typename P>
const MicroKernels<P>& avx512_kernels();
const MicroKernels<bfloat16>& avx512_bf16_kernels();

// Rounds to nearest even, and numbers too small for a whole mantissa to zero.
void store_avx512_bf16(const float* from, std::int64_t from_pitch, std::int64_t rows, std::int64_t columns,
                       bfloat16* to, std::int64_t to_pitch);

// Whether products of bfloat16 take it as it is; else they widen it to float32.
inline bool packs_bfloat16(Isa isa) { return isa == Isa::avx512_bf16; }

template <typename P>
const MicroKernels<P>& micro_kernels(Isa isa) {
  if constexpr (std::is_same_v<P, bfloat16>) {
    assert(packs_bfloat16(isa));
    (void)isa;
    return avx512_bf16_kernels();
  } else {
#if defined(__x86_64__)
    if (isa >= Isa::avx512) return avx512_kernels<P>();
    if (isa == Isa::avx2) return avx2_kernels<P>();
#endif
    (void)isa;
    return portable_kernels<P>();
  }
}

}  // namespace moesh::backend::cpu
