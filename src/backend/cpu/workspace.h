// Bytes of scratch memory that kernels take besides operands and results, computed in the same way as kernels take it.
#pragma once

#include <cstdint>
#include <optional>

#include "base/dtype.h"
#include "base/shape.h"
#include "graph/graph.h"

namespace moesh::backend::cpu {

// Memory that each thread keeps from call to call; the functions are in gemm.cc, attention.cc, attention_grad.cc, delta_rule.cc,
// indexing.cc, norm.cc and vocab_loss.cc.
std::int64_t gemm_scratch_bytes();
std::int64_t attention_bytes(const Shape& query, const Shape& key, const Shape& value);
std::int64_t attention_grad_bytes(const Shape& query, const Shape& key, const Shape& value);
std::int64_t index_scores_bytes(const Shape& query);
std::int64_t attention_shares_bytes(const Shape& key);
std::int64_t delta_rule_bytes(const Shape& query, const Shape& value, bool backward);
std::int64_t rms_norm_grad_bytes(const Shape& x);

// For a kernel whose threads share a piece of memory: that piece, which the calling thread keeps, and the memory of each thread.
struct SharedBytes {
  std::int64_t shared = 0;
  std::int64_t own = 0;
};
// The operands of a vocab_loss, and the type of the gradient of its table if it gives one.
struct VocabLossTypes {
  graph::VocabLossOf of;
  Shape x, table;
  DType dtype, of_table;
  std::optional<DType> of_gradient;
};
SharedBytes vocab_loss_bytes(const VocabLossTypes& types, std::int64_t threads);

}  // namespace moesh::backend::cpu
