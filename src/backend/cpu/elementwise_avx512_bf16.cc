#include "backend/cpu/elementwise_avx512.h"

#if defined(__x86_64__)
#include <limits>
#include <utility>

#include "backend/cpu/intrinsics.h"

#include "backend/cpu/exp_avx512.h"
#include "backend/cpu/lanes_avx512.h"
#include "backend/cpu/pack.h"

#define MOESH_INSTRUCTIONS "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16"

namespace moesh::backend::cpu {
namespace {

#include "backend/cpu/elementwise_shape.h"

struct Halves {
  using Element = bfloat16;
  static constexpr DType kDType = DType::bfloat16;
  static constexpr bool kHasPairs = true;
  MOESH_INLINE static __m512 read(const bfloat16* at, __mmask16 which) { return as_floats(read_16(at, which)); }
  MOESH_INLINE static __m512 read(const float* at, __mmask16 which) { return _mm512_maskz_loadu_ps(which, at); }
  MOESH_INLINE static void write(bfloat16* at, __mmask16 which, __m512 value) {
    _mm256_mask_storeu_epi16(at, which, (__m256i)_mm512_cvtneps_pbh(value));
  }
  MOESH_INLINE static void write(float* at, __mmask16 which, __m512 value) { _mm512_mask_storeu_ps(at, which, value); }

  // Two elements are one word. To widen them takes half as many instructions if those at even places, which are in the low halves, come
  // first.
  MOESH_INLINE static Two of_pairs(__m512i pairs) {
    const __m512i high = _mm512_and_si512(pairs, _mm512_set1_epi32(INT32_MIN >> 15));
    return {_mm512_castsi512_ps(_mm512_slli_epi32(pairs, 16)), _mm512_castsi512_ps(high)};
  }
  MOESH_INLINE static __m512i in_pairs(Two of) {
    alignas(64) static constexpr std::int16_t kPlaces[] = {0, 16, 1, 17, 2,  18, 3,  19, 4,  20, 5,  21, 6,  22, 7,  23,
                                                           8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
    return _mm512_permutexvar_epi16(_mm512_load_si512(kPlaces), (__m512i)_mm512_cvtne2ps_pbh(of.second, of.first));
  }
  MOESH_INLINE static Two rounded(Two of) { return of_pairs(in_pairs(of)); }

  MOESH_INLINE static void read_pairs(const bfloat16* from, __mmask32 which, float* to) {
    const Two floats = of_pairs(_mm512_maskz_loadu_epi16(which, from));
    _mm512_store_ps(to, floats.first);
    _mm512_store_ps(to + kLanes16, floats.second);
  }
  // What is written has been rounded.
  template <bool streams>
  MOESH_INLINE static void write_pairs(bfloat16* to, __mmask32 which, const float* from) {
    const __m512i pairs = _mm512_or_si512(_mm512_srli_epi32(_mm512_load_si512(from), 16), _mm512_load_si512(from + kLanes16));
    if constexpr (streams) _mm512_stream_si512(reinterpret_cast<__m512i*>(to), pairs);
    else _mm512_mask_storeu_epi16(to, which, pairs);
  }

  struct Line {
    Two floats;
    __m512i pairs;
  };
  MOESH_INLINE static Line line_of_pairs(__m512i pairs) { return {of_pairs(pairs), pairs}; }
  MOESH_INLINE static Line line_of(Two values) { return line_of_pairs(in_pairs(values)); }
  MOESH_INLINE static Line read_line(const bfloat16* from) { return line_of_pairs(_mm512_loadu_si512(from)); }
  template <bool streams>
  MOESH_INLINE static void write_line(const Line& line, bfloat16* to) {
    if constexpr (streams) _mm512_stream_si512(reinterpret_cast<__m512i*>(to), line.pairs);
    else _mm512_storeu_si512(to, line.pairs);
  }
};

}  // namespace

MOESH_ELEMENTWISE(bfloat16, Halves)

MOESH_TARGET void chain_avx512_bf16(const KernelCall& call, std::int64_t begin, std::int64_t end, bool streams) {
  run_chain<Halves>(call, begin, end, streams);
}

MOESH_TARGET void round_avx512(const float* x, std::int64_t count, bfloat16* y) { ForAll<Halves>{count, y}.run(Same{}, x); }

MOESH_TARGET void round_streaming_avx512(const float* x, std::int64_t count, bfloat16* y) {
  constexpr std::int64_t kLine = 2 * kLanes16;
  std::int64_t i = 0;
  for (; i + kLine <= count; i += kLine) {
    const __m512bh line = _mm512_cvtne2ps_pbh(_mm512_loadu_ps(x + i + kLanes16), _mm512_loadu_ps(x + i));
    _mm512_stream_si512(reinterpret_cast<__m512i*>(y + i), (__m512i)line);
  }
  round_avx512(x + i, count - i, y + i);
  fence_streaming_stores();
}

}  // namespace moesh::backend::cpu
#endif
