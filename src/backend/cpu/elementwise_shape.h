// Elementwise loops, sixteen elements at a time. This file is included once per element type, inside an unnamed namespace, after the
// definition of MOESH_INSTRUCTIONS (the compiler's names of the instructions). `Words` reads, rounds and writes sixteen elements, or, at
// the end, as many as a mask selects.
#pragma once

#define MOESH_TARGET [[gnu::target(MOESH_INSTRUCTIONS)]]
#define MOESH_INLINE [[gnu::target(MOESH_INSTRUCTIONS), gnu::always_inline]] inline
#define MOESH_INLINE_LAMBDA __attribute__((target(MOESH_INSTRUCTIONS), always_inline))

using graph::Binary;
using graph::ChainStep;
using graph::Unary;

constexpr std::int64_t kLanes16 = 16;
constexpr __mmask16 kAll16 = 0xFFFF;
constexpr float kInfinite = std::numeric_limits<float>::infinity();

// Thirty-two elements.
struct Two {
  __m512 first, second;
};

// 1 / (1 + e^-x) for silu, or 0 where e^-x would be infinite, with fused multiply-add and an approximate division.
template <bool rounds>
MOESH_INLINE __m512 fast_sigmoid_of_16(__m512 x) {
  const __m512 one = _mm512_set1_ps(1), most = _mm512_set1_ps(88), negative = _mm512_sub_ps(_mm512_setzero_ps(), x);
  const __mmask16 is_finite = _mm512_cmp_ps_mask(negative, most, _CMP_NGT_UQ);
  const __m512 below = _mm512_add_ps(one, exp_of_16(_mm512_min_ps(negative, most))), near = _mm512_rcp14_ps(below);
  return _mm512_maskz_mul_ps(is_finite, near, _mm512_fnmadd_ps(below, near, _mm512_set1_ps(2)));
}
// For results that are rounded to bfloat16, in half as many instructions: 2^t in place of e^-x, where t has been rounded, and the
// processor's estimate of a reciprocal. It is within 2^-13 of the sigmoid.
template <>
MOESH_INLINE __m512 fast_sigmoid_of_16<true>(__m512 x) {
  const __m512 t = _mm512_mul_ps(x, _mm512_set1_ps(-1.44269504f)), rest = _mm512_reduce_ps(t, 0);
  __m512 series = _mm512_set1_ps(9.5701e-3f);
  constexpr float kTerms[] = {5.591786e-2f, 2.4024745e-1f, 6.9312181e-1f, 9.9999926e-1f};
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) series = _mm512_fmadd_ps(series, rest, _mm512_set1_ps(kTerms[i]));
  return _mm512_rcp14_ps(_mm512_add_ps(_mm512_set1_ps(1), _mm512_scalef_ps(series, _mm512_sub_ps(t, rest))));
}

// What follows has the bits of simd.h and elementwise.cc: sigmoids choose experts, which should not depend on the machine.

// x = n ln 2 + r: the nearest n, plus what leaves it in the low bits, and e^r - 1 - r.
struct PartsOfExp {
  __m512 shifted, r, series;
};
MOESH_INLINE PartsOfExp parts_of_exp(__m512 x) {
  const __m512 shift = _mm512_set1_ps(12582912.0f), shifted = _mm512_add_ps(_mm512_mul_ps(x, _mm512_set1_ps(1.44269504089f)), shift);
  const __m512 n = _mm512_sub_ps(shifted, shift), high = _mm512_mul_ps(n, _mm512_set1_ps(0.693359375f));
  const __m512 r = _mm512_add_ps(_mm512_sub_ps(x, high), _mm512_mul_ps(n, _mm512_set1_ps(2.12194440e-4f)));
  __m512 series = _mm512_set1_ps(1.9875691500e-4f);
  constexpr float kTerms[] = {1.3981999507e-3f, 8.3334519073e-3f, 4.1665795894e-2f, 1.6666665459e-1f, 5.0000001201e-1f};
#pragma GCC unroll 5
  for (int i = 0; i < 5; ++i) series = _mm512_add_ps(_mm512_mul_ps(series, r), _mm512_set1_ps(kTerms[i]));
  return {shifted, r, _mm512_mul_ps(_mm512_mul_ps(series, r), r)};
}
// The number times 2^n.
MOESH_INLINE __m512 times_power(__m512 number, __m512 shifted) {
  return _mm512_castsi512_ps(_mm512_add_epi32(_mm512_castps_si512(number), _mm512_slli_epi32(_mm512_castps_si512(shifted), 23)));
}

MOESH_INLINE __m512 sigmoid_of_16(__m512 x) {
  const __m512 one = _mm512_set1_ps(1), negative = _mm512_sub_ps(_mm512_setzero_ps(), x), infinite = _mm512_set1_ps(kInfinite);
  const PartsOfExp of = parts_of_exp(negative);
  __m512 exponential = times_power(_mm512_add_ps(_mm512_add_ps(of.series, of.r), one), of.shifted);
  const __mmask16 is_high = _mm512_cmp_ps_mask(negative, _mm512_set1_ps(88.7228317f), _CMP_NLE_UQ);
  exponential = _mm512_mask_add_ps(exponential, is_high, negative, infinite);  // NaN stays one
  exponential = _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(negative, _mm512_set1_ps(-87.3365447f), _CMP_NLT_UQ), exponential);
  return _mm512_div_ps(one, _mm512_add_ps(one, exponential));
}

// GELU is x times the sigmoid of this.
MOESH_INLINE __m512 inner_of_gelu(__m512 x) {
  const __m512 square = _mm512_mul_ps(_mm512_mul_ps(_mm512_set1_ps(static_cast<float>(kGeluCubic)), x), x);
  return _mm512_mul_ps(_mm512_set1_ps(static_cast<float>(kGeluInner)), _mm512_add_ps(x, _mm512_mul_ps(square, x)));
}

struct TanhOf16 {
  __m512 tanh, slope;
};
MOESH_INLINE TanhOf16 tanh_of_16(__m512 x) {
  const __m512 one = _mm512_set1_ps(1), size = _mm512_abs_ps(x), most = _mm512_set1_ps(43);
  const __m512 bounded = _mm512_mask_mov_ps(size, _mm512_cmp_ps_mask(size, most, _CMP_GT_OQ), most);
  const PartsOfExp of = parts_of_exp(_mm512_mul_ps(_mm512_set1_ps(-2), bounded));
  const __m512 power = times_power(one, of.shifted), rest = _mm512_mul_ps(power, _mm512_add_ps(of.series, of.r));
  const __m512 e = _mm512_add_ps(rest, power), below_one = _mm512_sub_ps(_mm512_sub_ps(one, power), rest);
  const __m512 share = _mm512_div_ps(one, _mm512_add_ps(one, e));
  const __m512i sign = _mm512_and_si512(_mm512_castps_si512(x), _mm512_set1_epi32(INT32_MIN));
  const __m512i tanh = _mm512_or_si512(_mm512_castps_si512(_mm512_mul_ps(below_one, share)), sign);
  return {_mm512_castsi512_ps(tanh), _mm512_mul_ps(_mm512_mul_ps(_mm512_mul_ps(_mm512_set1_ps(4), e), share), share)};
}

// The functions, and behind each its gradient. Those that need a sigmoid may be given it.
template <bool rounds>
struct Silu {
  MOESH_INLINE __m512 of(__m512 x) const { return of(x, fast_sigmoid_of_16<rounds>(x)); }
  MOESH_INLINE __m512 of(__m512 x, __m512 sigmoid) const { return _mm512_mul_ps(x, sigmoid); }
};
template <bool rounds>
struct SiluGrad {
  MOESH_INLINE __m512 of(__m512 x, __m512 dy) const { return of(x, dy, fast_sigmoid_of_16<rounds>(x)); }
  MOESH_INLINE __m512 of(__m512 x, __m512 dy, __m512 sigmoid) const {
    const __m512 one = _mm512_set1_ps(1);
    return _mm512_mul_ps(_mm512_mul_ps(dy, sigmoid), _mm512_fmadd_ps(x, _mm512_sub_ps(one, sigmoid), one));
  }
};
struct Sigmoid {
  MOESH_INLINE __m512 of(__m512 x) const { return sigmoid_of_16(x); }
  MOESH_INLINE __m512 of(__m512, __m512 sigmoid) const { return sigmoid; }
};
struct SigmoidGrad {
  MOESH_INLINE __m512 of(__m512 x, __m512 dy) const { return of(x, dy, sigmoid_of_16(x)); }
  MOESH_INLINE __m512 of(__m512, __m512 dy, __m512 sigmoid) const {
    return _mm512_mul_ps(_mm512_mul_ps(dy, sigmoid), _mm512_sub_ps(_mm512_set1_ps(1), sigmoid));
  }
};
struct Gelu {
  MOESH_INLINE __m512 of(__m512 x) const { return of(x, sigmoid_of_16(inner_of_gelu(x))); }
  MOESH_INLINE __m512 of(__m512 x, __m512 sigmoid) const { return _mm512_mul_ps(x, sigmoid); }
};
struct GeluGrad {
  MOESH_INLINE __m512 of(__m512 x, __m512 dy) const { return of(x, dy, sigmoid_of_16(inner_of_gelu(x))); }
  MOESH_INLINE __m512 of(__m512 x, __m512 dy, __m512 sigmoid) const {
    const __m512 one = _mm512_set1_ps(1), thrice = _mm512_set1_ps(3 * static_cast<float>(kGeluCubic));
    const __m512 of_inner = _mm512_add_ps(one, _mm512_mul_ps(_mm512_mul_ps(thrice, x), x));
    const __m512 rise = _mm512_mul_ps(_mm512_mul_ps(x, sigmoid), _mm512_sub_ps(one, sigmoid));
    const __m512 by_inner = _mm512_mul_ps(_mm512_mul_ps(rise, _mm512_set1_ps(static_cast<float>(kGeluInner))), of_inner);
    return _mm512_mul_ps(dy, _mm512_add_ps(sigmoid, by_inner));
  }
};
struct Relu {
  MOESH_INLINE __m512 of(__m512 x) const {
    return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(x, _mm512_setzero_ps(), _CMP_NLT_UQ), x);
  }
};
struct ReluGrad {
  MOESH_INLINE __m512 of(__m512 x, __m512 dy) const {
    return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(x, _mm512_setzero_ps(), _CMP_GT_OQ), dy);
  }
};
struct Tanh {
  MOESH_INLINE __m512 of(__m512 x) const { return tanh_of_16(x).tanh; }
};
struct TanhGrad {
  MOESH_INLINE __m512 of(__m512 x, __m512 dy) const { return _mm512_mul_ps(dy, tanh_of_16(x).slope); }
};
struct Scale {
  __m512 by;
  MOESH_INLINE __m512 of(__m512 x) const { return _mm512_mul_ps(x, by); }
  MOESH_INLINE __m512 of(__m512, __m512 dy) const { return _mm512_mul_ps(dy, by); }
};
struct Offset {
  __m512 by;
  MOESH_INLINE __m512 of(__m512 x) const { return _mm512_add_ps(x, by); }
};
struct Clamp {
  __m512 low, high;
  MOESH_INLINE __m512 of(__m512 x) const {
    const __m512 below = _mm512_mask_mov_ps(x, _mm512_cmp_ps_mask(x, high, _CMP_GT_OQ), high);
    return _mm512_mask_mov_ps(below, _mm512_cmp_ps_mask(x, low, _CMP_LT_OQ), low);
  }
};
struct ClampGrad {
  __m512 low, high;
  MOESH_INLINE __m512 of(__m512 x, __m512 dy) const {
    const __mmask16 is_outside = _mm512_cmp_ps_mask(x, low, _CMP_LT_OQ) | _mm512_cmp_ps_mask(x, high, _CMP_GT_OQ);
    return _mm512_mask_mov_ps(dy, is_outside, _mm512_setzero_ps());
  }
};
struct Minimum {
  __m512 with;
  MOESH_INLINE __m512 of(__m512 x) const { return _mm512_mask_mov_ps(x, _mm512_cmp_ps_mask(x, with, _CMP_GT_OQ), with); }
};
struct MinimumGrad {
  __m512 with;
  MOESH_INLINE __m512 of(__m512 x, __m512 dy) const { return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(x, with, _CMP_LT_OQ), dy); }
};
struct Same {
  MOESH_INLINE __m512 of(__m512 x) const { return x; }
};
struct SameGrad {
  MOESH_INLINE __m512 of(__m512, __m512 dy) const { return dy; }
};
struct Add {
  MOESH_INLINE __m512 of(__m512 a, __m512 b) const { return _mm512_add_ps(a, b); }
};
struct Subtract {
  MOESH_INLINE __m512 of(__m512 a, __m512 b) const { return _mm512_sub_ps(a, b); }
};
struct Multiply {
  MOESH_INLINE __m512 of(__m512 a, __m512 b) const { return _mm512_mul_ps(a, b); }
};
struct Divide {
  MOESH_INLINE __m512 of(__m512 a, __m512 b) const { return _mm512_div_ps(a, b); }
};

// Calls loop.run(function, arguments...) with the function that `of` names, one of those that has_avx512 tells.
template <typename Loop, typename... T>
MOESH_INLINE void with_unary(const graph::UnaryOf& of, const Loop& loop, const T*... arguments) {
  const __m512 a = _mm512_set1_ps(static_cast<float>(of.a)), b = _mm512_set1_ps(static_cast<float>(of.b));
  switch (of.function) {
    case Unary::silu: return loop.run(Silu<Loop::kRounds>{}, arguments...);
    case Unary::sigmoid: return loop.run(Sigmoid{}, arguments...);
    case Unary::gelu: return loop.run(Gelu{}, arguments...);
    case Unary::relu: return loop.run(Relu{}, arguments...);
    case Unary::tanh: return loop.run(Tanh{}, arguments...);
    case Unary::scale: return loop.run(Scale{a}, arguments...);
    case Unary::offset: return loop.run(Offset{a}, arguments...);
    case Unary::clamp: return loop.run(Clamp{a, b}, arguments...);
    case Unary::minimum: return loop.run(Minimum{a}, arguments...);
    default: return loop.run(Same{}, arguments...);
  }
}
template <typename Loop, typename... T>
MOESH_INLINE void with_unary_grad(const graph::UnaryOf& of, const Loop& loop, const T*... arguments) {
  const __m512 a = _mm512_set1_ps(static_cast<float>(of.a)), b = _mm512_set1_ps(static_cast<float>(of.b));
  switch (of.function) {
    case Unary::silu: return loop.run(SiluGrad<Loop::kRounds>{}, arguments...);
    case Unary::sigmoid: return loop.run(SigmoidGrad{}, arguments...);
    case Unary::gelu: return loop.run(GeluGrad{}, arguments...);
    case Unary::relu: return loop.run(ReluGrad{}, arguments...);
    case Unary::tanh: return loop.run(TanhGrad{}, arguments...);
    case Unary::scale: return loop.run(Scale{a}, arguments...);
    case Unary::clamp: return loop.run(ClampGrad{a, b}, arguments...);
    case Unary::minimum: return loop.run(MinimumGrad{a}, arguments...);
    default: return loop.run(SameGrad{}, arguments...);
  }
}
template <typename Loop, typename... T>
MOESH_INLINE void with_binary(Binary function, const Loop& loop, const T*... arguments) {
  switch (function) {
    case Binary::add: return loop.run(Add{}, arguments...);
    case Binary::subtract: return loop.run(Subtract{}, arguments...);
    case Binary::multiply: return loop.run(Multiply{}, arguments...);
    case Binary::divide: return loop.run(Divide{}, arguments...);
  }
}

// result[i] = function(operands[i]...). The function is inlined into the loop, which is compiled for its instruction set.
template <typename Words>
struct ForAll {
  static constexpr bool kRounds = !std::is_same_v<typename Words::Element, float>;
  std::int64_t count;
  typename Words::Element* result;

  template <typename Function, typename... T>
  MOESH_INLINE void run(const Function& function, const T*... operands) const {
    std::int64_t i = 0;
    for (; i + kLanes16 <= count; i += kLanes16) Words::write(result + i, kAll16, function.of(Words::read(operands + i, kAll16)...));
    if (i == count) return;
    const __mmask16 rest = first_of_16(count - i);
    Words::write(result + i, rest, function.of(Words::read(operands + i, rest)...));
  }
};

constexpr std::int64_t kPiece = 128;             // elements that go through all steps at a time
constexpr std::int64_t kPieceBytesAhead = 2048;  // prefetch distance in operands

// The same for a piece of a chain, whose values lie in float32, rounded or not.
template <typename Words, bool rounds>
struct ForPiece {
  static constexpr bool kRounds = rounds;
  float* to;

  template <typename Function, typename... T>
  MOESH_INLINE void run(const Function& function, const T*... operands) const {
#pragma GCC unroll 4
    for (std::int64_t i = 0; i < kPiece; i += 2 * kLanes16) {
      Two value{function.of(_mm512_load_ps(operands + i)...), function.of(_mm512_load_ps(operands + i + kLanes16)...)};
      if constexpr (rounds) value = Words::rounded(value);
      _mm512_store_ps(to + i, value.first);
      _mm512_store_ps(to + i + kLanes16, value.second);
    }
  }
};

// The sigmoids that a step took last: the step of its gradient needs the same ones.
struct Sigmoids {
  const float* value = nullptr;
  Unary function = Unary::identity;
  bool are_rough = false;
  alignas(64) float all[kPiece];

  template <bool rounds>
  MOESH_INLINE const float* of(const float* x, Unary of_function) {
    if (x == value && of_function == function && are_rough == rounds) return all;
    value = x;
    function = of_function;
    are_rough = rounds;
#pragma GCC unroll 8
    for (std::int64_t i = 0; i < kPiece; i += kLanes16) {
      const __m512 at = _mm512_load_ps(x + i);
      const bool is_silu = function == Unary::silu;
      _mm512_store_ps(all + i, is_silu ? fast_sigmoid_of_16<rounds>(at) : sigmoid_of_16(function == Unary::gelu ? inner_of_gelu(at) : at));
    }
    return all;
  }
};

template <typename Words, bool rounds>
MOESH_INLINE void take_step(const ChainStep& step, float (*values)[kPiece], Sigmoids& sigmoids, float* to) {
  using Kind = ChainStep::Kind;
  const ForPiece<Words, rounds> piece{to};
  const float* const a = values[step.operands[0]];
  if (step.kind == Kind::cast) return piece.run(Same{}, a);
  const float* const b = values[step.operands.back()];
  if (step.kind == Kind::binary) return with_binary(step.binary.function, piece, a, b);
  const bool is_gradient = step.kind == Kind::unary_grad;
  const Unary function = step.unary.function;
  switch (function) {
    case Unary::silu:
      if (is_gradient) return piece.run(SiluGrad<rounds>{}, a, b, sigmoids.of<rounds>(a, function));
      return piece.run(Silu<rounds>{}, a, sigmoids.of<rounds>(a, function));
    case Unary::sigmoid:
      if (is_gradient) return piece.run(SigmoidGrad{}, a, b, sigmoids.of<rounds>(a, function));
      return piece.run(Sigmoid{}, a, sigmoids.of<rounds>(a, function));
    case Unary::gelu:
      if (is_gradient) return piece.run(GeluGrad{}, a, b, sigmoids.of<rounds>(a, function));
      return piece.run(Gelu{}, a, sigmoids.of<rounds>(a, function));
    default:
      if (is_gradient) return with_unary_grad(step.unary, piece, a, b);
      return with_unary(step.unary, piece, a);
  }
}

// A piece may lie in pairs, if Words can read and write them: of every 32 elements first those at even places, then those at odd ones.
template <typename Words, bool in_pairs, typename T>
MOESH_INLINE void read_piece(const T* from, std::int64_t count, float* to) {
  for (std::int64_t byte = 0; byte < kPiece * static_cast<std::int64_t>(sizeof(T)); byte += 64) {
    __builtin_prefetch(reinterpret_cast<const char*>(from) + kPieceBytesAhead + byte);
  }
  if constexpr (in_pairs) {
#pragma GCC unroll 4
    for (std::int64_t i = 0; i < kPiece; i += 2 * kLanes16) {
      Words::read_pairs(from + i, first_of_32(count - i), to + i);
    }
  } else {
#pragma GCC unroll 8
    for (std::int64_t i = 0; i < kPiece; i += kLanes16) {
      _mm512_store_ps(to + i, Words::read(from + i, count >= kPiece ? kAll16 : first_of_16(count - i)));
    }
  }
}

template <typename Words, bool in_pairs, bool streams, typename T>
MOESH_INLINE void write_all(const float* from, std::int64_t count, T* to) {
  if constexpr (in_pairs) {
#pragma GCC unroll 4
    for (std::int64_t i = 0; i < kPiece; i += 2 * kLanes16) {
      Words::template write_pairs<streams>(to + i, first_of_32(count - i), from + i);
    }
  } else {
#pragma GCC unroll 8
    for (std::int64_t i = 0; i < kPiece; i += kLanes16) {
      const __m512 value = _mm512_load_ps(from + i);
      if constexpr (streams && std::is_same_v<T, float>) _mm512_stream_ps(to + i, value);
      else Words::write(to + i, count >= kPiece ? kAll16 : first_of_16(count - i), value);
    }
  }
}
template <typename Words, bool in_pairs, typename T>
MOESH_INLINE void write_piece(const float* from, std::int64_t count, bool streams, T* to) {
  if (streams && count >= kPiece) write_all<Words, in_pairs, true>(from, count, to);
  else write_all<Words, in_pairs, false>(from, count, to);
}

template <typename Words, bool in_pairs>
MOESH_INLINE void run_chain_in(const KernelCall& call, std::int64_t begin, std::int64_t end, bool streams) {
  using T = typename Words::Element;
  const auto& chain = std::get<graph::ChainOf>(call.attributes);
  const auto is_wide = [](DType dtype) { return !in_pairs && dtype == DType::float32; };
  alignas(64) float values[kMostChainValues][kPiece];
  for (; begin < end; begin += kPiece) {
    const std::int64_t count = end - begin;
    std::size_t made = 0;
    for (const View& operand : call.operands) {
      float* const to = values[made++];
      if (is_wide(operand.dtype)) read_piece<Words, false>(static_cast<const float*>(operand.data) + begin, count, to);
      else read_piece<Words, in_pairs>(static_cast<const T*>(operand.data) + begin, count, to);
    }
    Sigmoids sigmoids;
    for (const ChainStep& step : chain.steps) {
      float* const to = values[made++];
      if (is_wide(step.dtype)) take_step<Words, false>(step, values, sigmoids, to);
      else take_step<Words, true>(step, values, sigmoids, to);
    }
    for (std::size_t i = 0; i < call.results.size(); ++i) {
      const View& result = call.results[i];
      const float* const from = values[call.operands.size() + chain.step_of(i)];
      if (is_wide(result.dtype)) write_piece<Words, false>(from, count, streams, static_cast<float*>(result.data) + begin);
      else write_piece<Words, in_pairs>(from, count, streams, static_cast<T*>(result.data) + begin);
    }
  }
}

#include "backend/cpu/compiled_chains.h"

// Elements `begin` to `end` of a chain's results. Operands and results are floats or what Words reads and writes.
template <typename Words>
MOESH_INLINE void run_chain(const KernelCall& call, std::int64_t begin, std::int64_t end, bool streams) {
  const auto is_other = [](const auto& of) { return of.dtype != Words::kDType; };
  const auto& chain = std::get<graph::ChainOf>(call.attributes);
  const bool is_mixed = std::any_of(call.operands.begin(), call.operands.end(), is_other) ||
                        std::any_of(chain.steps.begin(), chain.steps.end(), is_other);
  if (is_mixed) return run_chain_in<Words, false>(call, begin, end, streams);
  begin = run_compiled<Words>(call, begin, end, streams);
  run_chain_in<Words, Words::kHasPairs>(call, begin, end, streams);
}

#define MOESH_ELEMENTWISE(T, WORDS)                                                                                              \
  MOESH_TARGET void unary_avx512(const graph::UnaryOf& of, const T* x, std::int64_t count, T* y) {                               \
    with_unary(of, ForAll<WORDS>{count, y}, x);                                                                                  \
  }                                                                                                                              \
  MOESH_TARGET void unary_grad_avx512(const graph::UnaryOf& of, const T* x, const T* dy, std::int64_t count, T* dx) {            \
    with_unary_grad(of, ForAll<WORDS>{count, dx}, x, dy);                                                                        \
  }                                                                                                                              \
  MOESH_TARGET void binary_avx512(graph::Binary function, const T* a, const T* b, std::int64_t count, T* y) {                    \
    with_binary(function, ForAll<WORDS>{count, y}, a, b);                                                                        \
  }
