// Masks, loads and conversions for lanes of AVX-512.
#pragma once

#if defined(__x86_64__)
#include "backend/cpu/intrinsics.h"

#include <cstdint>

#include "base/bfloat16.h"

#define MOESH_LANES [[gnu::target("avx512f,avx512bw"), gnu::always_inline]] inline

namespace moesh::backend::cpu {

// Mask of the first `count` lanes: no lane if `count` is 0 or less, all of them if it is 16 or more.
MOESH_LANES __mmask16 first_of_16(std::int64_t count) {
  return static_cast<__mmask16>(count >= 16 ? 0xFFFF : count <= 0 ? 0 : (1u << count) - 1);
}
// The same of 32 lanes.
MOESH_LANES __mmask32 first_of_32(std::int64_t count) {
  return count >= 32 ? ~0u : count <= 0 ? 0 : (1u << count) - 1;
}
MOESH_LANES __m512i widened(__m256i halves) { return _mm512_cvtepu16_epi32(halves); }
MOESH_LANES __m256i read_16(const bfloat16* at, __mmask16 which) { return _mm512_castsi512_si256(_mm512_maskz_loadu_epi16(which, at)); }
MOESH_LANES __m512 as_floats(__m256i halves) { return _mm512_castsi512_ps(_mm512_slli_epi32(widened(halves), 16)); }

}  // namespace moesh::backend::cpu

#undef MOESH_LANES
#endif
