#include "backend/cpu/elementwise_avx512.h"

#if defined(__x86_64__)
#include <limits>
#include <utility>

#include "backend/cpu/intrinsics.h"

#include "backend/cpu/exp_avx512.h"
#include "backend/cpu/lanes_avx512.h"

#define MOESH_INSTRUCTIONS "avx512f,avx512bw,avx512dq"

namespace moesh::backend::cpu {
namespace {

#include "backend/cpu/elementwise_shape.h"

struct Floats {
  using Element = float;
  static constexpr DType kDType = DType::float32;
  static constexpr bool kHasPairs = false;
  MOESH_INLINE static __m512 read(const float* at, __mmask16 which) { return _mm512_maskz_loadu_ps(which, at); }
  MOESH_INLINE static Two rounded(Two values) { return values; }
  MOESH_INLINE static void write(float* at, __mmask16 which, __m512 value) { _mm512_mask_storeu_ps(at, which, value); }

  struct Line {
    Two floats;
  };
  MOESH_INLINE static Line line_of(Two values) { return {values}; }
  MOESH_INLINE static Line read_line(const float* from) { return {{_mm512_loadu_ps(from), _mm512_loadu_ps(from + kLanes16)}}; }
  template <bool streams>
  MOESH_INLINE static void write_line(const Line& line, float* to) {
    if constexpr (streams) {
      _mm512_stream_ps(to, line.floats.first);
      _mm512_stream_ps(to + kLanes16, line.floats.second);
    } else {
      _mm512_storeu_ps(to, line.floats.first);
      _mm512_storeu_ps(to + kLanes16, line.floats.second);
    }
  }
};

}  // namespace

MOESH_ELEMENTWISE(float, Floats)

MOESH_TARGET void chain_avx512(const KernelCall& call, std::int64_t begin, std::int64_t end, bool streams) {
  run_chain<Floats>(call, begin, end, streams);
}

MOESH_TARGET bool is_compiled(const graph::ChainOf& chain, std::size_t operands) {
  return with_compiled(chain, operands, []<const auto&>() {});
}

}  // namespace moesh::backend::cpu
#endif
