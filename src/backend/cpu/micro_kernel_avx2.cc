// Micro kernels on 256-bit registers: 6 rows of two registers, one more pair for b.
#include "backend/cpu/micro_kernel.h"

#if defined(__x86_64__)
#include <immintrin.h>

#include <cstddef>
#include <type_traits>
#include <utility>

#define MOESH_TARGET [[gnu::target("avx2,fma")]]
#define MOESH_INLINE [[gnu::target("avx2,fma"), gnu::always_inline]] inline

namespace moesh::backend::cpu {
namespace {

constexpr int kRows = 6;

struct Floats {
  using Element = float;
  using Sum = float;
  using Vector = __m256;
  static constexpr int kWidth = 8;
  MOESH_INLINE static Vector zero() { return _mm256_setzero_ps(); }
  MOESH_INLINE static Vector read(const float* p) { return _mm256_loadu_ps(p); }
  MOESH_INLINE static Vector spread(const float* p) { return _mm256_set1_ps(*p); }
  MOESH_INLINE static Vector multiply_add(Vector a, Vector b, Vector sum) { return _mm256_fmadd_ps(a, b, sum); }
  MOESH_INLINE static void write(float* p, Vector sum, bool add) {
    _mm256_storeu_ps(p, add ? _mm256_add_ps(_mm256_loadu_ps(p), sum) : sum);
  }
};

struct Doubles {
  using Element = double;
  using Sum = double;
  using Vector = __m256d;
  static constexpr int kWidth = 4;
  MOESH_INLINE static Vector zero() { return _mm256_setzero_pd(); }
  MOESH_INLINE static Vector read(const double* p) { return _mm256_loadu_pd(p); }
  MOESH_INLINE static Vector spread(const double* p) { return _mm256_set1_pd(*p); }
  MOESH_INLINE static Vector multiply_add(Vector a, Vector b, Vector sum) { return _mm256_fmadd_pd(a, b, sum); }
  MOESH_INLINE static void write(double* p, Vector sum, bool add) {
    _mm256_storeu_pd(p, add ? _mm256_add_pd(_mm256_loadu_pd(p), sum) : sum);
  }
};

#include "backend/cpu/micro_kernel_shape.h"

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
