// Micro kernels for bfloat16 operands on 512-bit registers: a step multiplies pairs and adds both products to float32.
#include "backend/cpu/micro_kernel.h"

#if defined(__x86_64__)
#include <immintrin.h>

#include <cstddef>
#include <cstring>
#include <utility>

namespace moesh::backend::cpu {
namespace {

constexpr int kRows = 14;
constexpr int kWidth = 16;  // float32 of a register, or pairs

template <int rows, int vectors>
[[gnu::target("avx512f,avx512bf16")]] void tile(std::int64_t steps, const bfloat16* __restrict a,
                                                const bfloat16* __restrict b, float* __restrict c, std::int64_t c_pitch,
                                                bool add) {
  __m512 sum[rows][vectors];
#pragma GCC unroll 16
  for (int i = 0; i < rows; ++i) {
#pragma GCC unroll 2
    for (int j = 0; j < vectors; ++j) {
      sum[i][j] = _mm512_setzero_ps();
      __builtin_prefetch(c + i * c_pitch + j * kWidth, 1);
    }
  }
  for (std::int64_t p = 0; p < steps; ++p, a += 2 * kRows, b += 2 * 2 * kWidth) {
    __m512bh of_b[vectors];
#pragma GCC unroll 2
    for (int j = 0; j < vectors; ++j) of_b[j] = (__m512bh)_mm512_loadu_si512(b + j * 2 * kWidth);
#pragma GCC unroll 16
    for (int i = 0; i < rows; ++i) {
      int pair;
      std::memcpy(&pair, a + 2 * i, sizeof pair);
      const __m512bh of_a = (__m512bh)_mm512_set1_epi32(pair);
#pragma GCC unroll 2
      for (int j = 0; j < vectors; ++j) sum[i][j] = _mm512_dpbf16_ps(sum[i][j], of_a, of_b[j]);
    }
  }
#pragma GCC unroll 16
  for (int i = 0; i < rows; ++i) {
#pragma GCC unroll 2
    for (int j = 0; j < vectors; ++j) {
      float* at = c + i * c_pitch + j * kWidth;
      _mm512_storeu_ps(at, add ? _mm512_add_ps(_mm512_loadu_ps(at), sum[i][j]) : sum[i][j]);
    }
  }
}

template <std::size_t... i>
MicroKernels<bfloat16> all_tiles(std::index_sequence<i...>) {
  return {kRows, 2 * kWidth, {tile<i + 1, 2>...}, {tile<i + 1, 1>...}};
}

}  // namespace

const MicroKernels<bfloat16>& avx512_bf16_kernels() {
  static const MicroKernels<bfloat16> kernels = all_tiles(std::make_index_sequence<kRows>());
  return kernels;
}

[[gnu::target("avx512f,avx512bw,avx512vl,avx512bf16")]] void store_avx512_bf16(const float* from,
                                                                               std::int64_t from_pitch,
                                                                               std::int64_t rows, std::int64_t columns,
                                                                               bfloat16* to, std::int64_t to_pitch) {
  for (std::int64_t i = 0; i < rows; ++i, from += from_pitch, to += to_pitch) {
    std::int64_t j = 0;
    for (; j + kWidth <= columns; j += kWidth) {
      const __m256bh rounded = _mm512_cvtneps_pbh(_mm512_loadu_ps(from + j));
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + j), (__m256i)rounded);
    }
    if (j == columns) continue;
    const auto mask = static_cast<__mmask16>((1 << (columns - j)) - 1);
    const __m256bh rounded = _mm512_cvtneps_pbh(_mm512_maskz_loadu_ps(mask, from + j));
    _mm256_mask_storeu_epi16(to + j, mask, (__m256i)rounded);
  }
}

}  // namespace moesh::backend::cpu
#endif
