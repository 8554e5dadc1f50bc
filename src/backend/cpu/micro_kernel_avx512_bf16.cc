// Micro-kernels for bfloat16 operands on 512-bit registers: a step multiplies pairs of elements and adds both products to a float32 sum.
#include "backend/cpu/micro_kernel.h"

#if defined(__x86_64__)
#include "backend/cpu/intrinsics.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <utility>

#define MOESH_INSTRUCTIONS "avx512f,avx512bw,avx512bf16"

namespace moesh::backend::cpu {
namespace {

constexpr int kRows = 14;
constexpr int kRowsThatRun = 8;
constexpr int kRowsOfTwoPanels = 6;

#include "backend/cpu/micro_kernel_shape.h"

MOESH_VECTORS(Floats, float, __m512, 512, ps);

struct Pairs : Floats {
  using Element = bfloat16;
  static constexpr bool kRounds = true;
  MOESH_INLINE static Vector read(const bfloat16* p) { return _mm512_loadu_ps(p); }
  MOESH_INLINE static void pack(bfloat16* p, Vector of_b) { _mm512_storeu_si512(p, _mm512_castps_si512(of_b)); }
  MOESH_INLINE static Vector spread(const bfloat16* p) {
    int pair;
    std::memcpy(&pair, p, sizeof pair);
    return _mm512_castsi512_ps(_mm512_set1_epi32(pair));
  }
  template <int vectors>
  MOESH_INLINE static void round(bfloat16* p, const Vector (&sum)[vectors]) {
#pragma GCC unroll 2
    for (int j = 0; j < vectors; j += 2) _mm512_storeu_si512(p + j * kWidth, (__m512i)_mm512_cvtne2ps_pbh(sum[j + 1], sum[j]));
  }
  MOESH_INLINE static void round(bfloat16* p, const Vector (&sum)[1]) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), (__m256i)_mm512_cvtneps_pbh(sum[0]));
  }
  MOESH_INLINE static Vector multiply_add(Vector a, Vector b, Vector sum) { return _mm512_dpbf16_ps(sum, (__m512bh)a, (__m512bh)b); }
};

constexpr std::int64_t kWidth = Pairs::kWidth;

// Reads two lines of the depth and interleaves their elements; the second line is zeros if the chunk ends before it.
struct Turns {
  MOESH_INLINE static void read(const bfloat16* b, std::int64_t pitch, std::int64_t left, __m512 (&to)[2]) {
    const __m512i first = _mm512_loadu_si512(b), second = left > 1 ? _mm512_loadu_si512(b + pitch) : _mm512_setzero_si512();
    const __m512i low = _mm512_unpacklo_epi16(first, second), high = _mm512_unpackhi_epi16(first, second);
    const __m512i lower = _mm512_setr_epi64(0, 1, 8, 9, 2, 3, 10, 11), upper = _mm512_setr_epi64(4, 5, 12, 13, 6, 7, 14, 15);
    to[0] = _mm512_castsi512_ps(_mm512_permutex2var_epi64(low, lower, high));
    to[1] = _mm512_castsi512_ps(_mm512_permutex2var_epi64(low, upper, high));
  }
};

}  // namespace

const MicroKernels<bfloat16>& avx512_bf16_kernels() {
  static const MicroKernels<bfloat16> kernels = all_blocks<Pairs>();
  return kernels;
}

void multiply_strip_avx512_bf16(const Strip<bfloat16, bfloat16>& strip) { multiply_strip<Pairs, Turns>(strip); }
void multiply_and_pack_avx512_bf16(const Block<bfloat16>& block, const Unpacked<bfloat16, bfloat16>& b) {
  multiply_and_pack<Pairs, Turns>(block, b);
}
void multiply_runs_and_pack_avx512_bf16(const Block<bfloat16>& block, const Unpacked<bfloat16, bfloat16>& b) {
  multiply_runs_and_pack<Pairs, Turns>(block, b);
}

[[gnu::target("avx512f,avx512bw,avx512bf16")]] void store_avx512_bf16(const float* from, std::int64_t from_pitch, std::int64_t rows,
                                                                      std::int64_t columns, bfloat16* to, std::int64_t to_pitch) {
  for (std::int64_t i = 0; i < rows; ++i, from += from_pitch, to += to_pitch) {
    std::int64_t j = 0;
    for (; j + 2 * kWidth <= columns; j += 2 * kWidth) {
      const __m512bh rounded = _mm512_cvtne2ps_pbh(_mm512_loadu_ps(from + j + kWidth), _mm512_loadu_ps(from + j));
      _mm512_storeu_si512(to + j, (__m512i)rounded);
    }
    if (j == columns) continue;
    const auto mask = static_cast<__mmask32>((1u << (columns - j)) - 1);
    const __m512 first = _mm512_maskz_loadu_ps(static_cast<__mmask16>(mask), from + j);
    const __m512 second = _mm512_maskz_loadu_ps(static_cast<__mmask16>(mask >> kWidth), from + j + kWidth);
    _mm512_mask_storeu_epi16(to + j, mask, (__m512i)_mm512_cvtne2ps_pbh(second, first));
  }
}

[[gnu::target("avx512f")]] void stream_avx512(const float* from, std::int64_t from_pitch, std::int64_t rows, std::int64_t columns,
                                              float* to, std::int64_t to_pitch) {
  for (std::int64_t i = 0; i < rows; ++i, from += from_pitch, to += to_pitch) {
    for (std::int64_t j = 0; j < columns; j += kWidth) _mm512_stream_ps(to + j, _mm512_loadu_ps(from + j));
  }
}

}  // namespace moesh::backend::cpu
#endif
