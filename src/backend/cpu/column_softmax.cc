#include "backend/cpu/column_softmax.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace moesh::backend::cpu {
namespace {

#if defined(__x86_64__)
#define MOESH_TARGET [[gnu::target("avx512f,avx512bw,avx512bf16")]]
#define MOESH_INLINE [[gnu::target("avx512f,avx512bw,avx512bf16"), gnu::always_inline]] inline

constexpr __mmask16 kAll = 0xFFFF;

// exp_of in half as many instructions: fused, and with those that round to whole numbers and multiply by powers of two. +infinity, which
// no score above a base is, gives NaN.
MOESH_INLINE __m512 exp_of_16(__m512 x) {
  const __m512 n = _mm512_maskz_roundscale_ps(kAll, _mm512_mul_ps(x, _mm512_set1_ps(1.44269504089f)), 0);
  const __m512 r = _mm512_fmadd_ps(n, _mm512_set1_ps(2.12194440e-4f), _mm512_fnmadd_ps(n, _mm512_set1_ps(0.693359375f), x));
  __m512 series = _mm512_set1_ps(1.9875691500e-4f);
  constexpr float kTerms[] = {1.3981999507e-3f, 8.3334519073e-3f, 4.1665795894e-2f, 1.6666665459e-1f, 5.0000001201e-1f, 1.0f, 1.0f};
#pragma GCC unroll 7
  for (int i = 0; i < 7; ++i) series = _mm512_fmadd_ps(series, r, _mm512_set1_ps(kTerms[i]));
  const __mmask16 is_normal = _mm512_cmp_ps_mask(x, _mm512_set1_ps(-87.3365447f), _CMP_NLT_UQ);
  return _mm512_maskz_scalef_ps(is_normal, series, n);
}

MOESH_INLINE void write(float* to, __m512 first, __m512 second) {
  _mm512_storeu_ps(to, first);
  _mm512_storeu_ps(to + 16, second);
}
MOESH_INLINE void write(bfloat16* to, __m512 first, __m512 second) {
  _mm512_storeu_si512(to, (__m512i)_mm512_cvtne2ps_pbh(second, first));
}

template <typename E>
MOESH_TARGET void exponentiate_32(std::int64_t rows, const float* base, const float* scores, E* to, float* sums) {
  const __m512 base_0 = _mm512_loadu_ps(base), base_1 = _mm512_loadu_ps(base + 16);
  __m512 sum_0 = _mm512_loadu_ps(sums), sum_1 = _mm512_loadu_ps(sums + 16);
  for (std::int64_t row = 0; row < rows; ++row, scores += 32, to += 32) {
    const __m512 first = exp_of_16(_mm512_sub_ps(_mm512_loadu_ps(scores), base_0));
    const __m512 second = exp_of_16(_mm512_sub_ps(_mm512_loadu_ps(scores + 16), base_1));
    sum_0 = _mm512_add_ps(sum_0, first);
    sum_1 = _mm512_add_ps(sum_1, second);
    write(to, first, second);
  }
  _mm512_storeu_ps(sums, sum_0);
  _mm512_storeu_ps(sums + 16, sum_1);
}
#endif

}  // namespace

template <int kColumns, typename W, typename E>
void exponentiate(Isa isa, std::int64_t rows, const W* base, const W* scores, E* to, W* sums) {
#if defined(__x86_64__)
  if constexpr (kColumns == 32 && std::is_same_v<W, float>) {
    if (isa >= (std::is_same_v<E, bfloat16> ? Isa::avx512_bf16 : Isa::avx512)) return exponentiate_32(rows, base, scores, to, sums);
  }
#endif
  vectorised(isa, [&]() MOESH_LOOP {
    W from[kColumns], sum[kColumns];
    for (int j = 0; j < kColumns; ++j) from[j] = base[j];
    for (int j = 0; j < kColumns; ++j) sum[j] = sums[j];
    for (std::int64_t row = 0; row < rows; ++row) {
      const W* x = scores + row * kColumns;
      E* y = to + row * kColumns;
      MOESH_BY_ELEMENT
      for (int j = 0; j < kColumns; ++j) {
        const W exponential = exp_of(x[j] - from[j]);
        y[j] = store<E>(exponential);
        sum[j] += exponential;
      }
    }
    for (int j = 0; j < kColumns; ++j) sums[j] = sum[j];
  });
}

#define MOESH_EXPONENTIATE(W, E)                                                             \
  template void exponentiate<8, W, E>(Isa, std::int64_t, const W*, const W*, E*, W*);  \
  template void exponentiate<16, W, E>(Isa, std::int64_t, const W*, const W*, E*, W*); \
  template void exponentiate<32, W, E>(Isa, std::int64_t, const W*, const W*, E*, W*)
MOESH_EXPONENTIATE(float, float);
MOESH_EXPONENTIATE(float, bfloat16);
MOESH_EXPONENTIATE(double, double);
#undef MOESH_EXPONENTIATE

}  // namespace moesh::backend::cpu
