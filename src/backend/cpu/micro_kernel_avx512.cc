// Micro kernels on 512-bit registers: 14 rows of two registers, one more pair for b.
#include "backend/cpu/micro_kernel.h"

#if defined(__x86_64__)
#include <immintrin.h>

#include <cstddef>
#include <utility>

#define MOESH_AVX512 [[gnu::target("avx512f"), gnu::always_inline]] inline

namespace moesh::backend::cpu {
namespace {

constexpr int kRows = 14;

MOESH_AVX512 __m512 zero(float) { return _mm512_setzero_ps(); }
MOESH_AVX512 __m512d zero(double) { return _mm512_setzero_pd(); }
MOESH_AVX512 __m512 read(const float* p) { return _mm512_loadu_ps(p); }
MOESH_AVX512 __m512d read(const double* p) { return _mm512_loadu_pd(p); }
MOESH_AVX512 __m512 spread(float x) { return _mm512_set1_ps(x); }
MOESH_AVX512 __m512d spread(double x) { return _mm512_set1_pd(x); }
MOESH_AVX512 __m512 fma(__m512 a, __m512 b, __m512 c) { return _mm512_fmadd_ps(a, b, c); }
MOESH_AVX512 __m512d fma(__m512d a, __m512d b, __m512d c) { return _mm512_fmadd_pd(a, b, c); }
MOESH_AVX512 __m512 plus(__m512 a, __m512 b) { return _mm512_add_ps(a, b); }
MOESH_AVX512 __m512d plus(__m512d a, __m512d b) { return _mm512_add_pd(a, b); }
MOESH_AVX512 void write(float* p, __m512 x) { _mm512_storeu_ps(p, x); }
MOESH_AVX512 void write(double* p, __m512d x) { _mm512_storeu_pd(p, x); }

template <typename W, int rows, int vectors>
[[gnu::target("avx512f")]] void tile(std::int64_t depth, const W* __restrict a, const W* __restrict b, W* __restrict c,
                                     std::int64_t c_pitch, bool add) {
  using Vector = decltype(zero(W{}));
  constexpr int kWidth = 64 / sizeof(W);
  Vector sum[rows][vectors];
#pragma GCC unroll 16
  for (int i = 0; i < rows; ++i) {
#pragma GCC unroll 2
    for (int j = 0; j < vectors; ++j) {
      sum[i][j] = zero(W{});
      __builtin_prefetch(c + i * c_pitch + j * kWidth, 1);
    }
  }
  for (std::int64_t p = 0; p < depth; ++p, a += kRows, b += 2 * kWidth) {
    Vector of_b[vectors];
#pragma GCC unroll 2
    for (int j = 0; j < vectors; ++j) of_b[j] = read(b + j * kWidth);
#pragma GCC unroll 16
    for (int i = 0; i < rows; ++i) {
      const Vector of_a = spread(a[i]);
#pragma GCC unroll 2
      for (int j = 0; j < vectors; ++j) sum[i][j] = fma(of_a, of_b[j], sum[i][j]);
    }
  }
#pragma GCC unroll 16
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
  return {kRows, 2 * 64 / sizeof(W), {tile<W, i + 1, 2>...}, {tile<W, i + 1, 1>...}};
}

}  // namespace

template <typename W>
const MicroKernels<W>& avx512_kernels() {
  static const MicroKernels<W> kernels = all_tiles<W>(std::make_index_sequence<kRows>());
  return kernels;
}

template const MicroKernels<float>& avx512_kernels();
template const MicroKernels<double>& avx512_kernels();

}  // namespace moesh::backend::cpu
#endif
