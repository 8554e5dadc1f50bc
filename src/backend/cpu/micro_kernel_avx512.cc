// Micro-kernels on 512-bit registers: a register block of 14 rows of two vectors, and two more vectors for b.
#include "backend/cpu/micro_kernel.h"

#if defined(__x86_64__)
#include "backend/cpu/intrinsics.h"

#include <algorithm>
#include <cstddef>
#include <type_traits>
#include <utility>

#define MOESH_INSTRUCTIONS "avx512f"

namespace moesh::backend::cpu {
namespace {

constexpr int kRows = 14;
constexpr int kRowsThatRun = 8;
constexpr int kRowsOfTwoPanels = 6;

#include "backend/cpu/micro_kernel_shape.h"

MOESH_VECTORS(Floats, float, __m512, 512, ps);
MOESH_VECTORS(Doubles, double, __m512d, 512, pd);

struct Plain {
  MOESH_INLINE static void read(const float* b, std::int64_t, std::int64_t, __m512 (&to)[2]) {
    to[0] = _mm512_loadu_ps(b);
    to[1] = _mm512_loadu_ps(b + Floats::kWidth);
  }
};

struct Widened {
  MOESH_INLINE static __m512 wide(const bfloat16* from) {
    const __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
    constexpr __mmask16 kAll = 0xffff;
    return _mm512_castsi512_ps(_mm512_maskz_slli_epi32(kAll, _mm512_maskz_cvtepu16_epi32(kAll, bits), 16));
  }
  MOESH_INLINE static void read(const bfloat16* b, std::int64_t, std::int64_t, __m512 (&to)[2]) {
    to[0] = wide(b);
    to[1] = wide(b + Floats::kWidth);
  }
};

}  // namespace

template <typename P>
const MicroKernels<P>& avx512_kernels() {
  static const MicroKernels<P> kernels = all_blocks<std::conditional_t<std::is_same_v<P, double>, Doubles, Floats>>();
  return kernels;
}

template const MicroKernels<float>& avx512_kernels();
template const MicroKernels<double>& avx512_kernels();

#define MOESH_READS_B(B, READER)                                                                                                         \
  void multiply_strip_avx512(const Strip<float, B>& strip) { multiply_strip<Floats, READER>(strip); }                                    \
  void multiply_and_pack_avx512(const Block<float>& block, const Unpacked<float, B>& b) { multiply_and_pack<Floats, READER>(block, b); } \
  void multiply_runs_and_pack_avx512(const Block<float>& block, const Unpacked<float, B>& b) {                                           \
    multiply_runs_and_pack<Floats, READER>(block, b);                                                                                    \
  }
MOESH_READS_B(float, Plain)
MOESH_READS_B(bfloat16, Widened)
#undef MOESH_READS_B

}  // namespace moesh::backend::cpu
#endif
