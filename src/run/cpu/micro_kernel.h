// The innermost loop of a matrix product: a small tile of the result, held in registers, for each kind of instructions.
#pragma once

#include <cstdint>

#include "run/cpu/element.h"
#include "run/cpu/isa.h"

namespace moesh::run::cpu {

// c[i][j] = the sum over p < depth of a[p][i] b[p][j], or that added to c. Each sum starts from zero and takes p in order,
// whatever the tile's size: so an element's bits do not depend on the tile it falls into.
// Packed operands have MicroKernels::rows and ::columns for each p; a smaller tile skips the last ones.
template <typename W>
using MicroKernel = void (*)(std::int64_t depth, const W* a, const W* b, W* c, std::int64_t c_pitch, bool add);

template <typename W>
struct MicroKernels {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  MicroKernel<W> whole[14] = {};   // by the number of rows less one; all columns
  MicroKernel<W> narrow[14] = {};  // the first half of the columns
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
