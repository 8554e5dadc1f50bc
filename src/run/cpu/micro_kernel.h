// The innermost loop of a matrix product: a small tile of the result, held in registers, for each kind of instructions.
#pragma once

#include <cstdint>

#include "run/cpu/isa.h"

namespace moesh::run::cpu {

// c[i][j] = the sum over p < depth of a[p][i] b[p][j], or that added to c. Each sum starts from zero and takes p in order,
// one fused multiply-add a step, whatever the tile's size: so an element's bits do not depend on the tile it falls into.
// `a` has MicroKernels::rows elements a step and `b` MicroKernels::columns, of which a smaller tile skips the last ones.
template <typename W>
using MicroKernel = void (*)(std::int64_t depth, const W* a, const W* b, W* c, std::int64_t c_pitch, bool add);

template <typename W>
struct MicroKernels {
  static constexpr std::int64_t kMostRows = 14;

  std::int64_t rows = 0;
  std::int64_t columns = 0;
  MicroKernel<W> whole[kMostRows] = {};   // by the number of rows less one; all columns
  MicroKernel<W> narrow[kMostRows] = {};  // the first half of the columns
};

template <typename W>
const MicroKernels<W>& portable_kernels();
template <typename W>
const MicroKernels<W>& avx2_kernels();
template <typename W>
const MicroKernels<W>& avx512_kernels();

template <typename W>
const MicroKernels<W>& micro_kernels(Isa isa) {
#if defined(__x86_64__)
  if (isa == Isa::avx512) return avx512_kernels<W>();
  if (isa == Isa::avx2) return avx2_kernels<W>();
#endif
  (void)isa;
  return portable_kernels<W>();
}

}  // namespace moesh::run::cpu
