// The ops on each element of bfloat16 that large values go through, with the instructions that round to it.
#pragma once

#include <cstdint>

#include "base/bfloat16.h"
#include "graph/graph.h"

namespace moesh::backend::cpu {

void silu_avx512_bf16(const bfloat16* x, std::int64_t count, bfloat16* y);
void silu_grad_avx512_bf16(const bfloat16* x, const bfloat16* dy, std::int64_t count, bfloat16* dx);
void add_avx512_bf16(const bfloat16* a, const bfloat16* b, std::int64_t count, bfloat16* y);
void multiply_avx512_bf16(const bfloat16* a, const bfloat16* b, std::int64_t count, bfloat16* y);
void round_avx512_bf16(const float* x, std::int64_t count, bfloat16* y);

inline constexpr std::int64_t kMostChainValues = 16;  // operands, and what steps make

// Whether all that a chain does with so many operands of bfloat16 is done by these.
bool has_chain_avx512_bf16(const graph::ChainOf& chain, std::int64_t operands);
// Each step rounds what it makes. `operands` are of bfloat16.
void chain_avx512_bf16(const graph::ChainOf& chain, const bfloat16* const* operands, std::int64_t operand_count, std::int64_t count,
                       bfloat16* result);

}  // namespace moesh::backend::cpu
