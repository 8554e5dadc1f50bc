// Gives the same bits as AMX tiles. A step of a tile multiplies 32 elements of the depth: the products of the even ones are added up
// separately from those of the odd ones, each with fused multiply-add from 0 on, and the sum of both is added to c. Subnormal numbers are
// zeros.
#include "backend/cpu/tile_strip.h"

#if defined(__x86_64__)
#include "backend/cpu/cache_line.h"
#include "backend/cpu/intrinsics.h"

#include <algorithm>
#include <utility>

#include "backend/cpu/lanes_avx512.h"
#include "backend/cpu/micro_kernel.h"

#define MOESH_TARGET [[gnu::target("avx512f,avx512bw")]]
#define MOESH_INLINE [[gnu::target("avx512f,avx512bw"), gnu::always_inline]] inline

namespace moesh::backend::cpu {
namespace {

constexpr std::int64_t kLanes16 = 16;

// Subnormal numbers are zeros while an object of this class exists.
class FlushSubnormals {
 public:
  FlushSubnormals() : before_(_mm_getcsr()) { _mm_setcsr(before_ | 0x8040); }
  ~FlushSubnormals() { _mm_setcsr(before_); }
  FlushSubnormals(const FlushSubnormals&) = delete;
  FlushSubnormals& operator=(const FlushSubnormals&) = delete;

 private:
  unsigned before_;
};

// Prefetches lines in the order in which they lie in memory.
struct Ahead {
  const bfloat16* line;
  std::int64_t pitch, columns, done = 0;

  MOESH_INLINE void prefetch() {
    __builtin_prefetch(line + done, 0, 2);  // into the L2 cache, as the L1 cache has no room for so many
    done += kCacheLine<bfloat16>;
    if (done >= columns) {
      done = 0;
      line += pitch;
    }
  }
};

template <int rows>
MOESH_TARGET void take_step(const TileStrip& strip, std::int64_t begin, const bfloat16* next) {
  const std::int64_t end = std::min(begin + kTileDepth, strip.depth);
  Ahead ahead{next, strip.b_pitch, strip.columns};
  for (std::int64_t j = 0; j < strip.columns; j += kLanes16) {
    const __mmask16 which = first_of_16(strip.columns - j);
    const bfloat16* const b = strip.b + j;
    __m512 even[rows], odd[rows];
#pragma GCC unroll 8
    for (int i = 0; i < rows; ++i) even[i] = odd[i] = _mm512_setzero_ps();
    std::int64_t p = begin;
    for (; p + 2 <= end; p += 2) {
      ahead.prefetch();
      const __m512 first = as_floats(read_16(b + p * strip.b_pitch, which));
      const __m512 second = as_floats(read_16(b + (p + 1) * strip.b_pitch, which));
      const float* const a = strip.a + p * rows;
#pragma GCC unroll 8
      for (int i = 0; i < rows; ++i) {
        even[i] = _mm512_fmadd_ps(first, _mm512_set1_ps(a[i]), even[i]);
        odd[i] = _mm512_fmadd_ps(second, _mm512_set1_ps(a[rows + i]), odd[i]);
      }
    }
    if (p < end) {
      const __m512 first = as_floats(read_16(b + p * strip.b_pitch, which));
#pragma GCC unroll 8
      for (int i = 0; i < rows; ++i) even[i] = _mm512_fmadd_ps(first, _mm512_set1_ps(strip.a[p * rows + i]), even[i]);
    }
#pragma GCC unroll 8
    for (int i = 0; i < rows; ++i) {
      float* const c = strip.c + i * strip.c_pitch + j;
      const __m512 sum = _mm512_add_ps(_mm512_maskz_loadu_ps(which, c), _mm512_add_ps(even[i], odd[i]));
      _mm512_mask_storeu_ps(c, which, sum);
    }
  }
}

template <int... row>
void multiply_rows(const TileStrip& strip, std::integer_sequence<int, row...>) {
  static constexpr decltype(&take_step<1>) kOfRows[] = {take_step<row + 1>...};
  for (std::int64_t begin = 0; begin < strip.depth; begin += kTileDepth) {
    const std::int64_t end = begin + kTileDepth;
    kOfRows[strip.rows - 1](strip, begin, end < strip.depth ? strip.b + end * strip.b_pitch : strip.next);
  }
}

}  // namespace

void multiply_tile_strip(const TileStrip& strip) {
  const FlushSubnormals flush_subnormals;
  multiply_rows(strip, std::make_integer_sequence<int, static_cast<int>(TileStrip::kMostRows)>());
}

}  // namespace moesh::backend::cpu
#endif
