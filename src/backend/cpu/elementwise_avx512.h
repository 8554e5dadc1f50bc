// The ops on each element that large values go through, and whole chains of them, with the instructions of AVX-512. Those of bfloat16
// need the ones that round to it.
#pragma once

#include <cstdint>

#include "base/bfloat16.h"
#include "graph/graph.h"

namespace moesh::backend::cpu {

inline constexpr std::int64_t kMostChainValues = 24;  // operands, and what steps make

#define MOESH_ELEMENTWISE(T)                                                                                                              \
  void silu_avx512(const T* x, std::int64_t count, T* y);                                                                                 \
  void silu_grad_avx512(const T* x, const T* dy, std::int64_t count, T* dx);                                                              \
  void add_avx512(const T* a, const T* b, std::int64_t count, T* y);                                                                      \
  void multiply_avx512(const T* a, const T* b, std::int64_t count, T* y);                                                                 \
  /* Steps add, multiply, or are silu or its gradient, each of which rounds what it makes. A result may lie where an operand does. */     \
  void chain_avx512(const graph::ChainOf& chain, const T* const* operands, std::int64_t operand_count, std::int64_t count,                \
                    T* const* results)
MOESH_ELEMENTWISE(float);
MOESH_ELEMENTWISE(bfloat16);
#undef MOESH_ELEMENTWISE

void round_avx512(const float* x, std::int64_t count, bfloat16* y);
// Where y begins with a cache line; other threads may read it then.
void round_past_caches_avx512(const float* x, std::int64_t count, bfloat16* y);

}  // namespace moesh::backend::cpu
