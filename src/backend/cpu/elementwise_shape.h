// Elementwise loops, sixteen elements at a time. This file is included once per element type, inside an unnamed namespace, after the
// definition of MOESH_INSTRUCTIONS (the compiler's names of the instructions). `Words` reads, rounds and writes sixteen elements, or, at
// the end, as many as a mask selects.
#pragma once

#define MOESH_TARGET [[gnu::target(MOESH_INSTRUCTIONS)]]
#define MOESH_INLINE [[gnu::target(MOESH_INSTRUCTIONS), gnu::always_inline]] inline

using graph::ChainStep;

constexpr std::int64_t kLanes16 = 16;
constexpr __mmask16 kAll16 = 0xFFFF;

// 1 / (1 + e^-x), or 0 where e^-x would be infinite.
MOESH_INLINE __m512 sigmoid_of_16(__m512 x) {
  const __m512 one = _mm512_set1_ps(1), most = _mm512_set1_ps(88), negative = _mm512_sub_ps(_mm512_setzero_ps(), x);
  const __mmask16 is_finite = _mm512_cmp_ps_mask(negative, most, _CMP_NGT_UQ);
  const __m512 below = _mm512_add_ps(one, exp_of_16(_mm512_min_ps(negative, most)));
  const __m512 near = _mm512_rcp14_ps(below);
  return _mm512_maskz_mul_ps(is_finite, near, _mm512_fnmadd_ps(below, near, _mm512_set1_ps(2)));
}

struct Silu {
  MOESH_INLINE __m512 of(__m512 x) const { return of(x, sigmoid_of_16(x)); }
  MOESH_INLINE __m512 of(__m512 x, __m512 sigmoid) const { return _mm512_mul_ps(x, sigmoid); }
};
struct SiluGrad {
  MOESH_INLINE __m512 of(__m512 x, __m512 dy) const { return of(x, dy, sigmoid_of_16(x)); }
  MOESH_INLINE __m512 of(__m512 x, __m512 dy, __m512 sigmoid) const {
    const __m512 one = _mm512_set1_ps(1);
    return _mm512_mul_ps(_mm512_mul_ps(dy, sigmoid), _mm512_fmadd_ps(x, _mm512_sub_ps(one, sigmoid), one));
  }
};
struct Add {
  MOESH_INLINE __m512 of(__m512 a, __m512 b) const { return _mm512_add_ps(a, b); }
};
struct Multiply {
  MOESH_INLINE __m512 of(__m512 a, __m512 b) const { return _mm512_mul_ps(a, b); }
};
struct Same {
  MOESH_INLINE __m512 of(__m512 x) const { return x; }
};

// result[i] = function(operands[i]...). The function is inlined into the loop, which is compiled for its instruction set.
template <typename Words, typename Function, typename... T>
MOESH_INLINE void for_all(std::int64_t count, typename Words::Element* result, const Function& function, const T*... operands) {
  std::int64_t i = 0;
  for (; i + kLanes16 <= count; i += kLanes16) Words::write(result + i, kAll16, function.of(Words::read(operands + i, kAll16)...));
  if (i == count) return;
  const __mmask16 rest = first_of_16(count - i);
  Words::write(result + i, rest, function.of(Words::read(operands + i, rest)...));
}

constexpr std::int64_t kPiece = 64;              // elements that go through all steps at a time
constexpr std::int64_t kPieceBytesAhead = 2048;  // prefetch distance in operands

template <typename Words, typename Function, typename... T>
MOESH_INLINE void for_piece(float* to, const Function& function, const T*... from) {
#pragma GCC unroll 4
  for (std::int64_t i = 0; i < kPiece; i += kLanes16) _mm512_store_ps(to + i, Words::rounded(function.of(_mm512_load_ps(from + i)...)));
}

// The sigmoids of the piece that a silu step read last: the gradient of silu needs the same ones.
struct Sigmoids {
  const float* value = nullptr;
  alignas(64) float all[kPiece];

  MOESH_INLINE const float* of(const float* x) {
    if (x == value) return all;
    value = x;
#pragma GCC unroll 4
    for (std::int64_t i = 0; i < kPiece; i += kLanes16) _mm512_store_ps(all + i, sigmoid_of_16(_mm512_load_ps(x + i)));
    return all;
  }
};

template <typename Words>
MOESH_INLINE void take_step(const ChainStep& step, float (*values)[kPiece], Sigmoids& sigmoids, float* to) {
  const float* const a = values[step.operands[0]];
  if (step.kind == ChainStep::Kind::unary) return for_piece<Words>(to, Silu{}, a, sigmoids.of(a));
  const float* const b = values[step.operands[1]];
  if (step.kind == ChainStep::Kind::unary_grad) return for_piece<Words>(to, SiluGrad{}, a, b, sigmoids.of(a));
  if (step.binary.function == graph::Binary::add) return for_piece<Words>(to, Add{}, a, b);
  return for_piece<Words>(to, Multiply{}, a, b);
}

template <typename Words>
MOESH_INLINE void run_chain(const graph::ChainOf& chain, const typename Words::Element* const* operands, std::int64_t operand_count,
                            std::int64_t count, typename Words::Element* const* results) {
  using T = typename Words::Element;
  alignas(64) float values[kMostChainValues][kPiece];
  const auto fetch_ahead = [](const T* at) {
    for (std::int64_t byte = 0; byte < kPiece * static_cast<std::int64_t>(sizeof(T)); byte += 64) {
      __builtin_prefetch(reinterpret_cast<const char*>(at) + kPieceBytesAhead + byte);
    }
  };
  for (std::int64_t begin = 0; begin < count; begin += kPiece) {
    const bool is_whole = begin + kPiece <= count;
    for (std::int64_t operand = 0; operand < operand_count; ++operand) {
      const T* const from = operands[operand] + begin;
      fetch_ahead(from);
#pragma GCC unroll 4
      for (std::int64_t i = 0; i < kPiece; i += kLanes16) {
        _mm512_store_ps(values[operand] + i, Words::read(from + i, is_whole ? kAll16 : first_of_16(count - begin - i)));
      }
    }
    std::int64_t made = operand_count;
    Sigmoids sigmoids;
    for (const ChainStep& step : chain.steps) take_step<Words>(step, values, sigmoids, values[made++]);
    for (std::size_t result = 0; result < chain.result_count(); ++result) {
      T* const to = results[result] + begin;
      const float* const from = values[operand_count + static_cast<std::int64_t>(chain.step_of(result))];
#pragma GCC unroll 4
      for (std::int64_t i = 0; i < kPiece; i += kLanes16) {
        Words::write(to + i, is_whole ? kAll16 : first_of_16(count - begin - i), _mm512_load_ps(from + i));
      }
    }
  }
}

#define MOESH_ELEMENTWISE(T, WORDS)                                                                                                   \
  MOESH_TARGET void silu_avx512(const T* x, std::int64_t count, T* y) { for_all<WORDS>(count, y, Silu{}, x); }                        \
  MOESH_TARGET void silu_grad_avx512(const T* x, const T* dy, std::int64_t count, T* dx) {                                            \
    for_all<WORDS>(count, dx, SiluGrad{}, x, dy);                                                                                     \
  }                                                                                                                                   \
  MOESH_TARGET void add_avx512(const T* a, const T* b, std::int64_t count, T* y) { for_all<WORDS>(count, y, Add{}, a, b); }           \
  MOESH_TARGET void multiply_avx512(const T* a, const T* b, std::int64_t count, T* y) { for_all<WORDS>(count, y, Multiply{}, a, b); } \
  MOESH_TARGET void chain_avx512(const graph::ChainOf& chain, const T* const* operands, std::int64_t operand_count,                   \
                                 std::int64_t count, T* const* results) {                                                             \
    run_chain<WORDS>(chain, operands, operand_count, count, results);                                                                 \
  }
