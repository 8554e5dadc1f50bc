#include "backend/cpu/norm_avx512_bf16.h"

#if defined(__x86_64__)
#include "backend/cpu/intrinsics.h"
#include "backend/cpu/lanes_avx512.h"

#define MOESH_TARGET [[gnu::target("avx512f,avx512bw,avx512vl,avx512bf16")]]
#define MOESH_INLINE [[gnu::target("avx512f,avx512bw,avx512vl,avx512bf16"), gnu::always_inline]] inline

namespace moesh::backend::cpu {
namespace {

MOESH_INLINE __m256i round_16(__m512 values) { return (__m256i)_mm512_cvtneps_pbh(values); }
MOESH_INLINE __m512 floats_16(const bfloat16* at, __mmask16 which) { return as_floats(read_16(at, which)); }

}  // namespace

MOESH_TARGET void rms_norm_row_avx512_bf16(const bfloat16* x, float inverse, const bfloat16* scale, std::int64_t width, bfloat16* y) {
  const __m512 by = _mm512_set1_ps(inverse);
  for (std::int64_t i = 0; i < width; i += 16) {
    const __mmask16 which = first_of_16(width - i);
    const __m512 normal = as_floats(round_16(_mm512_mul_ps(floats_16(x + i, which), by)));
    _mm256_mask_storeu_epi16(y + i, which, round_16(_mm512_mul_ps(normal, floats_16(scale + i, which))));
  }
}

MOESH_TARGET void rms_norm_grad_row_avx512_bf16(const NormGradRow& row) {
  const __m512 inverse = _mm512_set1_ps(row.inverse), mean = _mm512_set1_ps(row.mean);
  for (std::int64_t i = 0; i < row.width; i += 16) {
    const __mmask16 which = first_of_16(row.width - i);
    const __m512 normal = _mm512_mul_ps(floats_16(row.x + i, which), inverse), dy = floats_16(row.dy + i, which);
    const __m512 dnormal = _mm512_mul_ps(dy, floats_16(row.scale + i, which));
    __m512 dx = _mm512_mul_ps(inverse, _mm512_sub_ps(dnormal, _mm512_mul_ps(normal, mean)));
    if (row.sum != nullptr) dx = _mm512_add_ps(floats_16(row.sum + i, which), dx);
    _mm256_mask_storeu_epi16(row.dx + i, which, round_16(dx));
    const __m512 dscale = _mm512_maskz_loadu_ps(which, row.dscale + i), product = _mm512_mul_ps(dy, as_floats(round_16(normal)));
    _mm512_mask_storeu_ps(row.dscale + i, which, _mm512_add_ps(dscale, product));
  }
}

}  // namespace moesh::backend::cpu
#endif
