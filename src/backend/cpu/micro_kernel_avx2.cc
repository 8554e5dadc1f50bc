// Micro-kernels on 256-bit registers: a register block of 6 rows of two vectors, and two more vectors for b.
#include "backend/cpu/micro_kernel.h"

#if defined(__x86_64__)
#include "backend/cpu/intrinsics.h"

#include <algorithm>
#include <cstddef>
#include <type_traits>
#include <utility>

#define MOESH_INSTRUCTIONS "avx2,fma"

namespace moesh::backend::cpu {
namespace {

constexpr int kRows = 6;
constexpr int kRowsThatRun = 6;
constexpr int kRowsOfTwoPanels = 0;

#include "backend/cpu/micro_kernel_shape.h"

MOESH_VECTORS(Floats, float, __m256, 256, ps);
MOESH_VECTORS(Doubles, double, __m256d, 256, pd);

struct Plain {
  MOESH_INLINE static void read(const float* b, std::int64_t, std::int64_t, __m256 (&to)[2]) {
    to[0] = _mm256_loadu_ps(b);
    to[1] = _mm256_loadu_ps(b + Floats::kWidth);
  }
};

struct Widened {
  MOESH_INLINE static __m256 wide(const bfloat16* from) {
    const __m128i bits = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
  }
  MOESH_INLINE static void read(const bfloat16* b, std::int64_t, std::int64_t, __m256 (&to)[2]) {
    to[0] = wide(b);
    to[1] = wide(b + Floats::kWidth);
  }
};

}  // namespace

template <typename P>
const MicroKernels<P>& avx2_kernels() {
  static const MicroKernels<P> kernels = all_blocks<std::conditional_t<std::is_same_v<P, double>, Doubles, Floats>>();
  return kernels;
}

template const MicroKernels<float>& avx2_kernels();
template const MicroKernels<double>& avx2_kernels();

#define MOESH_READS_B(B, READER)                                                                                                       \
  void multiply_strip_avx2(const Strip<float, B>& strip) { multiply_strip<Floats, READER>(strip); }                                    \
  void multiply_and_pack_avx2(const Block<float>& block, const Unpacked<float, B>& b) { multiply_and_pack<Floats, READER>(block, b); } \
  void multiply_runs_and_pack_avx2(const Block<float>& block, const Unpacked<float, B>& b) {                                           \
    multiply_runs_and_pack<Floats, READER>(block, b);                                                                                  \
  }
MOESH_READS_B(float, Plain)
MOESH_READS_B(bfloat16, Widened)
#undef MOESH_READS_B

}  // namespace moesh::backend::cpu
#endif
