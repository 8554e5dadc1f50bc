// Micro kernels on 256-bit registers: 6 rows of two registers, one more pair for b.
#include "backend/cpu/micro_kernel.h"

#if defined(__x86_64__)
#include <immintrin.h>

#include <cstddef>
#include <type_traits>
#include <utility>

#define MOESH_INSTRUCTIONS "avx2,fma"

namespace moesh::backend::cpu {
namespace {

constexpr int kRows = 6;

#include "backend/cpu/micro_kernel_shape.h"

MOESH_VECTORS(Floats, float, __m256, 256, ps);
MOESH_VECTORS(Doubles, double, __m256d, 256, pd);

}  // namespace

template <typename P>
const MicroKernels<P>& avx2_kernels() {
  static const MicroKernels<P> kernels = all_blocks<std::conditional_t<std::is_same_v<P, double>, Doubles, Floats>>();
  return kernels;
}

template const MicroKernels<float>& avx2_kernels();
template const MicroKernels<double>& avx2_kernels();

}  // namespace moesh::backend::cpu
#endif
