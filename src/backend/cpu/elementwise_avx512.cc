#include "backend/cpu/elementwise_avx512.h"

#if defined(__x86_64__)
#include <limits>

#include "backend/cpu/intrinsics.h"

#include "backend/cpu/exp_avx512.h"
#include "backend/cpu/lanes_avx512.h"

#define MOESH_INSTRUCTIONS "avx512f,avx512bw"

namespace moesh::backend::cpu {
namespace {

#include "backend/cpu/elementwise_shape.h"

struct Floats {
  using Element = float;
  static constexpr bool kHasPairs = false;
  MOESH_INLINE static __m512 read(const float* at, __mmask16 which) { return _mm512_maskz_loadu_ps(which, at); }
  MOESH_INLINE static __m512 rounded(__m512 value) { return value; }
  MOESH_INLINE static void write(float* at, __mmask16 which, __m512 value) { _mm512_mask_storeu_ps(at, which, value); }
};

}  // namespace

MOESH_ELEMENTWISE(float, Floats)

MOESH_TARGET void chain_avx512(const KernelCall& call, std::int64_t begin, std::int64_t end, bool streams) {
  run_chain<Floats>(call, begin, end, streams);
}

}  // namespace moesh::backend::cpu
#endif
