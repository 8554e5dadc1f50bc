// Micro kernels on 256-bit registers: 6 rows of two registers, one more pair for b.
#include "backend/cpu/micro_kernel.h"

#if defined(__x86_64__)
#include <immintrin.h>

#include <cstddef>
#include <utility>

#define MOESH_AVX2 [[gnu::target("avx2,fma"), gnu::always_inline]] inline

namespace moesh::backend::cpu {
namespace {

constexpr int kRows = 6;

MOESH_AVX2 __m256 zero(float) { return _mm256_setzero_ps(); }
MOESH_AVX2 __m256d zero(double) { return _mm256_setzero_pd(); }
MOESH_AVX2 __m256 read(const float* p) { return _mm256_loadu_ps(p); }
MOESH_AVX2 __m256d read(const double* p) { return _mm256_loadu_pd(p); }
MOESH_AVX2 __m256 spread(float x) { return _mm256_set1_ps(x); }
MOESH_AVX2 __m256d spread(double x) { return _mm256_set1_pd(x); }
MOESH_AVX2 __m256 fma(__m256 a, __m256 b, __m256 c) { return _mm256_fmadd_ps(a, b, c); }
MOESH_AVX2 __m256d fma(__m256d a, __m256d b, __m256d c) { return _mm256_fmadd_pd(a, b, c); }
MOESH_AVX2 __m256 plus(__m256 a, __m256 b) { return _mm256_add_ps(a, b); }
MOESH_AVX2 __m256d plus(__m256d a, __m256d b) { return _mm256_add_pd(a, b); }
MOESH_AVX2 void write(float* p, __m256 x) { _mm256_storeu_ps(p, x); }
MOESH_AVX2 void write(double* p, __m256d x) { _mm256_storeu_pd(p, x); }

template <typename W, int rows, int vectors>
[[gnu::target("avx2,fma")]] void tile(std::int64_t depth, const W* __restrict a, const W* __restrict b, W* __restrict c,
                                      std::int64_t c_pitch, bool add) {
  using Vector = decltype(zero(W{}));
  constexpr int kWidth = 32 / sizeof(W);
  Vector sum[rows][vectors];
#pragma GCC unroll 8
  for (int i = 0; i < rows; ++i) {
#pragma GCC unroll 2
    for (int j = 0; j < vectors; ++j) sum[i][j] = zero(W{});
  }
  for (std::int64_t p = 0; p < depth; ++p, a += kRows, b += 2 * kWidth) {
    Vector of_b[vectors];
#pragma GCC unroll 2
    for (int j = 0; j < vectors; ++j) of_b[j] = read(b + j * kWidth);
#pragma GCC unroll 8
    for (int i = 0; i < rows; ++i) {
      const Vector of_a = spread(a[i]);
#pragma GCC unroll 2
      for (int j = 0; j < vectors; ++j) sum[i][j] = fma(of_a, of_b[j], sum[i][j]);
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < rows; ++i) {
#pragma GCC unroll 2
    for (int j = 0; j < vectors; ++j) {
      W* at = c + i * c_pitch + j * kWidth;
      write(at, add ? plus(read(at), sum[i][j]) : sum[i][j]);
    }
  }
}

template <typename W, std::size_t... i>
MicroKernels<W> all_tiles(std::index_sequence<i...>) {
  return {kRows, 2 * 32 / sizeof(W), {tile<W, i + 1, 2>...}, {tile<W, i + 1, 1>...}};
}

}  // namespace

template <typename W>
const MicroKernels<W>& avx2_kernels() {
  static const MicroKernels<W> kernels = all_tiles<W>(std::make_index_sequence<kRows>());
  return kernels;
}

template const MicroKernels<float>& avx2_kernels();
template const MicroKernels<double>& avx2_kernels();

}  // namespace moesh::backend::cpu
#endif
