#include "backend/cpu/elementwise_avx512_bf16.h"

#if defined(__x86_64__)
#if !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // GCC 12: of what its own header leaves open on purpose (its bug 105593)
#endif
#include <immintrin.h>

#include "backend/cpu/exp_avx512.h"
#include "backend/cpu/lanes_avx512.h"

#define MOESH_TARGET [[gnu::target("avx512f,avx512bw,avx512vl,avx512bf16")]]
#define MOESH_INLINE [[gnu::target("avx512f,avx512bw,avx512vl,avx512bf16"), gnu::always_inline]] inline

namespace moesh::backend::cpu {
namespace {

constexpr std::int64_t kLanes16 = 16;

// Sixteen elements, widened; of the last ones those that are there.
struct Wide16 {
  __mmask16 which;
  MOESH_INLINE __m512 read(const bfloat16* at) const {
    return as_floats(read_16(at, which));
  }
  MOESH_INLINE __m512 read(const float* at) const { return _mm512_maskz_loadu_ps(which, at); }
  MOESH_INLINE void write(bfloat16* at, __m512 value) const { _mm256_mask_storeu_epi16(at, which, (__m256i)_mm512_cvtneps_pbh(value)); }
};

// 0 where the exponential that divides would be infinite.
MOESH_INLINE __m512 sigmoid_of_16(__m512 x) {
  const __m512 one = _mm512_set1_ps(1), most = _mm512_set1_ps(88), negative = _mm512_sub_ps(_mm512_setzero_ps(), x);
  const __mmask16 is_finite = _mm512_cmp_ps_mask(negative, most, _CMP_NGT_UQ);
  const __m512 below = _mm512_add_ps(one, exp_of_16(_mm512_min_ps(negative, most)));
  const __m512 near = _mm512_rcp14_ps(below);
  return _mm512_maskz_mul_ps(is_finite, near, _mm512_fnmadd_ps(below, near, _mm512_set1_ps(2)));
}

// result[i] = function(operands[i]...). A function is inlined into the loop that has its instructions.
template <typename Function, typename... T>
MOESH_INLINE void for_all(std::int64_t count, bfloat16* result, const Function& function, const T*... operands) {
  std::int64_t i = 0;
  for (; i + kLanes16 <= count; i += kLanes16) Wide16{0xFFFF}.write(result + i, function.of(Wide16{0xFFFF}.read(operands + i)...));
  if (i == count) return;
  const Wide16 rest{first_of_16(count - i)};
  rest.write(result + i, function.of(rest.read(operands + i)...));
}

struct Silu {
  MOESH_INLINE __m512 of(__m512 x) const { return _mm512_mul_ps(x, sigmoid_of_16(x)); }
};
struct SiluGrad {
  MOESH_INLINE __m512 of(__m512 x, __m512 dy) const {
    const __m512 one = _mm512_set1_ps(1), s = sigmoid_of_16(x);
    return _mm512_mul_ps(_mm512_mul_ps(dy, s), _mm512_fmadd_ps(x, _mm512_sub_ps(one, s), one));
  }
};
struct Add {
  MOESH_INLINE __m512 of(__m512 a, __m512 b) const { return _mm512_add_ps(a, b); }
};
struct Multiply {
  MOESH_INLINE __m512 of(__m512 a, __m512 b) const { return _mm512_mul_ps(a, b); }
};
struct Round {
  MOESH_INLINE __m512 of(__m512 x) const { return x; }
};

using graph::ChainStep;

constexpr std::int64_t kPiece = 64;       // elements that go through all steps at a time

template <typename Function, typename... T>
MOESH_INLINE void for_piece(float* to, const Function& function, const T*... from) {
#pragma GCC unroll 4
  for (std::int64_t i = 0; i < kPiece; i += kLanes16) {
    const __m256i rounded = (__m256i)_mm512_cvtneps_pbh(function.of(_mm512_load_ps(from + i)...));
    _mm512_store_ps(to + i, as_floats(rounded));
  }
}

MOESH_INLINE void take_step(const ChainStep& step, float (*values)[kPiece], float* to) {
  const float* const a = values[step.operands[0]];
  if (step.kind == ChainStep::Kind::unary) return for_piece(to, Silu{}, a);
  const float* const b = values[step.operands[1]];
  if (step.kind == ChainStep::Kind::unary_grad) return for_piece(to, SiluGrad{}, a, b);
  if (step.binary.function == graph::Binary::add) return for_piece(to, Add{}, a, b);
  return for_piece(to, Multiply{}, a, b);
}

}  // namespace

bool has_chain_avx512_bf16(const graph::ChainOf& chain, std::int64_t operands) {
  for (const ChainStep& step : chain.steps) {
    if (step.dtype != DType::bfloat16 || step.kind == ChainStep::Kind::cast) return false;
    const bool is_binary = step.kind == ChainStep::Kind::binary;
    const graph::Binary function = step.binary.function;
    if (is_binary ? function != graph::Binary::add && function != graph::Binary::multiply : step.unary.function != graph::Unary::silu) {
      return false;
    }
  }
  return operands + static_cast<std::int64_t>(chain.steps.size()) <= kMostChainValues;
}

MOESH_TARGET void chain_avx512_bf16(const graph::ChainOf& chain, const bfloat16* const* operands, std::int64_t operand_count,
                                    std::int64_t count, bfloat16* result) {
  alignas(64) float values[kMostChainValues][kPiece];
  const std::int64_t last = operand_count + static_cast<std::int64_t>(chain.steps.size()) - 1;
  for (std::int64_t begin = 0; begin < count; begin += kPiece) {
    for (std::int64_t operand = 0; operand < operand_count; ++operand) {
      for (std::int64_t i = 0; i < kPiece; i += kLanes16) {
        _mm512_store_ps(values[operand] + i, Wide16{first_of_16(count - begin - i)}.read(operands[operand] + begin + i));
      }
    }
    std::int64_t made = operand_count;
    for (const ChainStep& step : chain.steps) take_step(step, values, values[made++]);
    for (std::int64_t i = 0; i < kPiece; i += kLanes16) {
      Wide16{first_of_16(count - begin - i)}.write(result + begin + i, _mm512_load_ps(values[last] + i));
    }
  }
}

MOESH_TARGET void silu_avx512_bf16(const bfloat16* x, std::int64_t count, bfloat16* y) { for_all(count, y, Silu{}, x); }
MOESH_TARGET void silu_grad_avx512_bf16(const bfloat16* x, const bfloat16* dy, std::int64_t count, bfloat16* dx) {
  for_all(count, dx, SiluGrad{}, x, dy);
}
MOESH_TARGET void add_avx512_bf16(const bfloat16* a, const bfloat16* b, std::int64_t count, bfloat16* y) { for_all(count, y, Add{}, a, b); }
MOESH_TARGET void multiply_avx512_bf16(const bfloat16* a, const bfloat16* b, std::int64_t count, bfloat16* y) {
  for_all(count, y, Multiply{}, a, b);
}
MOESH_TARGET void round_avx512_bf16(const float* x, std::int64_t count, bfloat16* y) { for_all(count, y, Round{}, x); }

}  // namespace moesh::backend::cpu
#endif
