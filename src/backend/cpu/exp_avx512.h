// e^x for AVX-512.
#pragma once

#if defined(__x86_64__)
#include "backend/cpu/intrinsics.h"

namespace moesh::backend::cpu {

// exp_of in half as many instructions: with fused multiply-add, and with the instructions that round to whole numbers and that multiply by
// powers of two. +infinity gives NaN.
[[gnu::target("avx512f"), gnu::always_inline]] inline __m512 exp_of_16(__m512 x) {
  constexpr __mmask16 kAll = 0xFFFF;
  const __m512 n = _mm512_maskz_roundscale_ps(kAll, _mm512_mul_ps(x, _mm512_set1_ps(1.44269504089f)), 0);
  const __m512 r = _mm512_fmadd_ps(n, _mm512_set1_ps(2.12194440e-4f), _mm512_fnmadd_ps(n, _mm512_set1_ps(0.693359375f), x));
  __m512 series = _mm512_set1_ps(1.9875691500e-4f);
  constexpr float kTerms[] = {1.3981999507e-3f, 8.3334519073e-3f, 4.1665795894e-2f, 1.6666665459e-1f, 5.0000001201e-1f, 1.0f, 1.0f};
#pragma GCC unroll 7
  for (int i = 0; i < 7; ++i) series = _mm512_fmadd_ps(series, r, _mm512_set1_ps(kTerms[i]));
  const __mmask16 is_normal = _mm512_cmp_ps_mask(x, _mm512_set1_ps(-87.3365447f), _CMP_NLT_UQ);
  return _mm512_maskz_scalef_ps(is_normal, series, n);
}

}  // namespace moesh::backend::cpu
#endif
