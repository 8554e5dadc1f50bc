// Packs eight lines by eight steps at a time. A group of eight may hang over its panel's width: what it writes there is
// written again by what follows, so panels are packed in order, and the last one needs kPackSlack.
#include "backend/cpu/pack.h"

#if defined(__x86_64__)
#include <immintrin.h>

#include <cstring>

#define MOESH_AVX2 [[gnu::target("avx2"), gnu::always_inline]] inline

namespace moesh::backend::cpu {
namespace {

MOESH_AVX2 __m256i load_256(const void* at) { return _mm256_loadu_si256(static_cast<const __m256i*>(at)); }
MOESH_AVX2 __m256i widen(const bfloat16* at) {
  return _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(at)));
}

// A packed step has a word of 32 bits for each line. `along`: eight words of one line. `across`: one word of eight
// lines that run, and whose elements of the step's second half lie `next` further on.
struct Floats {
  static constexpr std::int64_t kStep = 1;
  MOESH_AVX2 static __m256i along(const float* line) { return load_256(line); }
  MOESH_AVX2 static __m256i across(const float* first, std::int64_t) { return load_256(first); }
};
struct WidenedFloats {
  static constexpr std::int64_t kStep = 1;
  MOESH_AVX2 static __m256i along(const bfloat16* line) { return _mm256_slli_epi32(widen(line), 16); }
  MOESH_AVX2 static __m256i across(const bfloat16* first, std::int64_t) { return along(first); }
};
struct Pairs {
  static constexpr std::int64_t kStep = 2;
  MOESH_AVX2 static __m256i along(const bfloat16* line) { return load_256(line); }
  MOESH_AVX2 static __m256i across(const bfloat16* first, std::int64_t next) {
    return _mm256_or_si256(widen(first), _mm256_slli_epi32(widen(first + next), 16));
  }
};

MOESH_AVX2 void transpose(__m256i (&x)[8]) {
  __m256i t[8];
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    t[2 * i] = _mm256_unpacklo_epi32(x[2 * i], x[2 * i + 1]);
    t[2 * i + 1] = _mm256_unpackhi_epi32(x[2 * i], x[2 * i + 1]);
  }
  __m256i u[8];
#pragma GCC unroll 2
  for (int i = 0; i < 2; ++i) {
    u[4 * i] = _mm256_unpacklo_epi64(t[4 * i], t[4 * i + 2]);
    u[4 * i + 1] = _mm256_unpackhi_epi64(t[4 * i], t[4 * i + 2]);
    u[4 * i + 2] = _mm256_unpacklo_epi64(t[4 * i + 1], t[4 * i + 3]);
    u[4 * i + 3] = _mm256_unpackhi_epi64(t[4 * i + 1], t[4 * i + 3]);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    x[i] = _mm256_permute2x128_si256(u[i], u[i + 4], 0x20);
    x[i + 4] = _mm256_permute2x128_si256(u[i], u[i + 4], 0x31);
  }
}

template <typename P>
MOESH_AVX2 void store_words(P* out, std::int64_t word, __m256i words) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + word * MicroKernels<P>::kStep), words);
}

// Later groups first, so that the next step's first lines come after what hangs over.
template <typename Words, typename T, typename P>
[[gnu::target("avx2")]] void pack_turned(const T* data, const std::int64_t* lines, std::int64_t count,
                                         std::int64_t ahead, std::int64_t depth, std::int64_t width, P* out) {
  constexpr std::int64_t kBlock = 8 * Words::kStep;
  for (std::int64_t group = (width - 1) / 8 * 8; group >= 0; group -= 8) {
    const T* line[8];
    const T* next[8];
    const std::int64_t next_group = group > 0 ? group - 8 : width + (width - 1) / 8 * 8;
    for (std::int64_t i = 0; i < 8; ++i) {
      line[i] = data + lines[std::min(group + i, count - 1)];  // lines that are not there repeat the last one
      next[i] = data + lines[std::min(next_group + i, ahead - 1)];
    }
    std::int64_t p = 0;
    for (; p + kBlock <= depth; p += kBlock) {
      __m256i block[8];
#pragma GCC unroll 8
      for (int i = 0; i < 8; ++i) {
        block[i] = Words::along(line[i] + p);
        _mm_prefetch(next[i] + p, _MM_HINT_T0);
      }
      transpose(block);
#pragma GCC unroll 8
      for (int i = 0; i < 8; ++i) store_words(out, (p / Words::kStep + i) * width + group, block[i]);
    }
    if (p == depth) continue;
    __m256i block[8];
    for (int i = 0; i < 8; ++i) {
      T end[kBlock] = {};
      std::memcpy(end, line[i] + p, static_cast<std::size_t>(depth - p) * sizeof(T));
      block[i] = Words::along(end);
    }
    transpose(block);
    const std::int64_t steps = (depth - p + Words::kStep - 1) / Words::kStep;
    for (std::int64_t i = 0; i < steps; ++i) store_words(out, (p / Words::kStep + i) * width + group, block[i]);
  }
}

template <typename Words, typename T, typename P>
[[gnu::target("avx2")]] void pack_straight(const T* data, std::int64_t count, const std::int64_t* depth,
                                           std::int64_t steps, std::int64_t width, P* out) {
  constexpr auto kCacheLine = static_cast<std::int64_t>(64 / sizeof(T));
  const std::int64_t whole = count / 8 * 8;
  for (std::int64_t step = 0; step < steps; ++step) {
    const T* from = data + depth[step * Words::kStep];
    for (std::int64_t line = width; line < 2 * width; line += kCacheLine) _mm_prefetch(from + line, _MM_HINT_T1);
    const std::int64_t next = depth[step * Words::kStep + Words::kStep - 1] - depth[step * Words::kStep];
    for (std::int64_t group = 0; group < whole; group += 8) {
      store_words(out, step * width + group, Words::across(from + group, next));
    }
    if (whole >= width) continue;
    T end[8 * Words::kStep] = {};
    for (std::int64_t i = whole; i < count; ++i) {
      for (std::int64_t half = 0; half < Words::kStep; ++half) end[half * 8 + i - whole] = from[half * next + i];
    }
    store_words(out, step * width + whole, Words::across(end, 8));
  }
}

}  // namespace

#define MOESH_PACK(T, P, WORDS)                                                                             \
  void pack_turned_avx2(const T* data, const std::int64_t* lines, std::int64_t count, std::int64_t ahead,   \
                        std::int64_t depth, std::int64_t width, P* out) {                                   \
    pack_turned<WORDS>(data, lines, count, ahead, depth, width, out);                                       \
  }                                                                                                         \
  void pack_straight_avx2(const T* data, std::int64_t count, const std::int64_t* depth, std::int64_t steps, \
                          std::int64_t width, P* out) {                                                     \
    pack_straight<WORDS>(data, count, depth, steps, width, out);                                            \
  }
MOESH_PACK(float, float, Floats)
MOESH_PACK(bfloat16, float, WidenedFloats)
MOESH_PACK(bfloat16, bfloat16, Pairs)
#undef MOESH_PACK

}  // namespace moesh::backend::cpu
#endif
