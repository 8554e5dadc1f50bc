// Micro kernels on 512-bit registers: 14 rows of two registers, one more pair for b.
#include "backend/cpu/micro_kernel.h"

#if defined(__x86_64__)
#include <immintrin.h>

#include <cstddef>
#include <type_traits>
#include <utility>

#define MOESH_INSTRUCTIONS "avx512f"

namespace moesh::backend::cpu {
namespace {

constexpr int kRows = 14;

#include "backend/cpu/micro_kernel_shape.h"

MOESH_VECTORS(Floats, float, __m512, 512, ps);
MOESH_VECTORS(Doubles, double, __m512d, 512, pd);

}  // namespace

template <typename P>
const MicroKernels<P>& avx512_kernels() {
  static const MicroKernels<P> kernels = all_blocks<std::conditional_t<std::is_same_v<P, double>, Doubles, Floats>>();
  return kernels;
}

template const MicroKernels<float>& avx512_kernels();
template const MicroKernels<double>& avx512_kernels();

}  // namespace moesh::backend::cpu
#endif
