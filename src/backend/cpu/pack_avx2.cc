// Packing with AVX2: eight lines by eight elements of the depth at a time.
#include "backend/cpu/pack.h"

#if defined(__x86_64__)
#include "backend/cpu/intrinsics.h"

#define MOESH_INLINE [[gnu::target("avx2"), gnu::always_inline]] inline

namespace moesh::backend::cpu {
namespace {

MOESH_INLINE __m256i load_256(const void* at) { return _mm256_loadu_si256(static_cast<const __m256i*>(at)); }
MOESH_INLINE __m256i widen(const bfloat16* at) {
  return _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(at)));
}

// `half`: four elements of one line. `across`: one element of each of eight lines that are adjacent in memory.
struct Floats {
  MOESH_INLINE static __m128i half(const float* line) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(line)); }
  MOESH_INLINE static __m256i across(const float* first) { return load_256(first); }
};
struct WidenedFloats {
  MOESH_INLINE static __m128i half(const bfloat16* line) {
    return _mm_slli_epi32(_mm_cvtepu16_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(line))), 16);
  }
  MOESH_INLINE static __m256i across(const bfloat16* first) { return _mm256_slli_epi32(widen(first), 16); }
};
// Transposes words of eight lines within the halves of the registers.
MOESH_INLINE void turn_four(__m256i (&x)[4]) {
  const __m256i a = _mm256_unpacklo_epi32(x[0], x[1]), b = _mm256_unpackhi_epi32(x[0], x[1]);
  const __m256i c = _mm256_unpacklo_epi32(x[2], x[3]), d = _mm256_unpackhi_epi32(x[2], x[3]);
  x[0] = _mm256_unpacklo_epi64(a, c);
  x[1] = _mm256_unpackhi_epi64(a, c);
  x[2] = _mm256_unpacklo_epi64(b, d);
  x[3] = _mm256_unpackhi_epi64(b, d);
}

// Transposes eight elements of the depth of eight lines into to[p][line]; `pitch` is in floats.
template <typename Words, typename T>
MOESH_INLINE void transpose(const T* data, const std::int64_t* line, float* to, std::int64_t pitch) {
  for (std::int64_t p = 0; p < 8; p += 4) {
    __m256i x[4];
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      x[i] = _mm256_inserti128_si256(_mm256_castsi128_si256(Words::half(data + line[i] + p)), Words::half(data + line[i + 4] + p), 1);
    }
    turn_four(x);
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + (p + i) * pitch), x[i]);
  }
}

template <typename Words, typename T>
[[gnu::target("avx2")]] void turn_eight(const T* data, const std::int64_t* lines, const std::int64_t* next, std::int64_t depth,
                                        std::int64_t width, float* to) {
  const std::int64_t whole = depth / 8 * 8;
  for (std::int64_t p = 0; p < whole; p += 8) {
    transpose<Words>(data + p, lines, to + p * width, width);
    for (int i = 0; i < 8; ++i) _mm_prefetch(data + p + next[i], _MM_HINT_T1);
  }
  for (std::int64_t p = whole; p < depth; ++p) {
    for (int i = 0; i < 8; ++i) to[p * width + i] = load(data[lines[i] + p]);
  }
}

template <typename Words, typename T>
[[gnu::target("avx2")]] void pack_contiguous(const T* data, std::int64_t count, std::int64_t ahead, const std::int64_t* depth,
                                             std::int64_t size, PanelShape panel, float* out) {
  for (std::int64_t begin = 0; begin < count; begin += kMostPanels * panel.lines, out += kMostPanels * panel.size()) {
    const std::int64_t end = std::min(begin + kMostPanels * panel.lines, count);
    for (std::int64_t p = 0; p < size; ++p) {
      const T* const from = data + depth[p];
      float* to = out + p * panel.width;
      for (std::int64_t line = begin; line < end; line += panel.lines, to += panel.size()) {
        for (std::int64_t group = 0; group < panel.width; group += 8) {
          const std::int64_t at = line + group;
          if (at + 8 <= ahead) {
            _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + group), Words::across(from + at));
          } else {
            for (std::int64_t i = 0; at + i < ahead; ++i) to[group + i] = load(from[at + i]);
          }
        }
      }
    }
  }
}

}  // namespace

#define MOESH_PACK(T, WORDS)                                                                                                           \
  void transpose_avx2(const T* data, const std::int64_t* lines, const std::int64_t* next, std::int64_t depth, const PanelShape& panel, \
                      float* out) {                                                                                                    \
    turn_eight<WORDS>(data, lines, next, depth, panel.width, out);                                                                     \
  }                                                                                                                                    \
  void pack_contiguous_avx2(const T* data, std::int64_t count, std::int64_t ahead, const std::int64_t* depth, std::int64_t size,       \
                            PanelShape panel, float* out) {                                                                            \
    pack_contiguous<WORDS>(data, count, ahead, depth, size, panel, out);                                                               \
  }
MOESH_PACK(float, Floats)
MOESH_PACK(bfloat16, WidenedFloats)
#undef MOESH_PACK

}  // namespace moesh::backend::cpu
#endif
