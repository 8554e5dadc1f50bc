// AVX-512 kernels for elementwise ops, and for whole chains of them. Those for bfloat16 need the instructions that round to bfloat16.
#pragma once

#include <cstdint>

#include "backend/kernel.h"
#include "base/bfloat16.h"
#include "graph/graph.h"

namespace moesh::backend::cpu {

inline constexpr std::int64_t kMostChainValues = 24;  // operands of a chain and results of its steps

// The tanh approximation of GELU, written with the sigmoid: (1 + tanh u) / 2 = sigmoid(2u), where 2u = kGeluInner (x + kGeluCubic x^3).
inline constexpr double kGeluInner = 1.5957691216057308;  // 2 sqrt(2/pi)
inline constexpr double kGeluCubic = 0.044715;

// The functions that large tensors go through, and that the kernels below know.
constexpr bool has_avx512(graph::Unary function) {
  using graph::Unary;
  switch (function) {
    case Unary::silu:
    case Unary::sigmoid:
    case Unary::gelu:
    case Unary::relu:
    case Unary::tanh:
    case Unary::identity:
    case Unary::scale:
    case Unary::offset:
    case Unary::clamp:
    case Unary::minimum: return true;
    default: return false;
  }
}

#define MOESH_ELEMENTWISE(T)                                                                                          \
  void unary_avx512(const graph::UnaryOf& of, const T* x, std::int64_t count, T* y);                                  \
  void unary_grad_avx512(const graph::UnaryOf& of, const T* x, const T* dy, std::int64_t count, T* dx);               \
  void binary_avx512(graph::Binary function, const T* a, const T* b, std::int64_t count, T* y)
MOESH_ELEMENTWISE(float);
MOESH_ELEMENTWISE(bfloat16);
#undef MOESH_ELEMENTWISE

// Elements `begin` to `end` of a chain of these functions and of casts, all of whose values are float32. Each step rounds its result. A
// result may be in place of an operand. Streams: with non-temporal stores, where each result begins on a cache line.
void chain_avx512(const KernelCall& call, std::int64_t begin, std::int64_t end, bool streams);
// The same for values in float32 and bfloat16.
void chain_avx512_bf16(const KernelCall& call, std::int64_t begin, std::int64_t end, bool streams);

// Whether a chain is one of those that are compiled as a whole (see compiled_chains.h), which takes two thirds of the time.
bool is_compiled(const graph::ChainOf& chain, std::size_t operands);

void round_avx512(const float* x, std::int64_t count, bfloat16* y);
// The same with non-temporal stores, for y that begins on a cache line. Other threads may read y afterwards.
void round_streaming_avx512(const float* x, std::int64_t count, bfloat16* y);

}  // namespace moesh::backend::cpu
