// AVX-512 kernels for the elementwise ops that large tensors go through, and for whole chains of these ops. Those for bfloat16 need the
// instructions that round to bfloat16.
#pragma once

#include <cstdint>

#include "base/bfloat16.h"
#include "graph/graph.h"

namespace moesh::backend::cpu {

inline constexpr std::int64_t kMostChainValues = 24;  // operands of a chain and results of its steps

#define MOESH_ELEMENTWISE(T)                                                                                                              \
  void silu_avx512(const T* x, std::int64_t count, T* y);                                                                                 \
  void silu_grad_avx512(const T* x, const T* dy, std::int64_t count, T* dx);                                                              \
  void add_avx512(const T* a, const T* b, std::int64_t count, T* y);                                                                      \
  void multiply_avx512(const T* a, const T* b, std::int64_t count, T* y);                                                                 \
  /* Each step is an add, a multiply, a silu or a gradient of silu, and rounds its result. A result may be in place of an operand. */     \
  void chain_avx512(const graph::ChainOf& chain, const T* const* operands, std::int64_t operand_count, std::int64_t count,                \
                    T* const* results)
MOESH_ELEMENTWISE(float);
MOESH_ELEMENTWISE(bfloat16);
#undef MOESH_ELEMENTWISE

void round_avx512(const float* x, std::int64_t count, bfloat16* y);
// The same with non-temporal stores, for y that begins on a cache line. Other threads may read y afterwards.
void round_streaming_avx512(const float* x, std::int64_t count, bfloat16* y);

}  // namespace moesh::backend::cpu
