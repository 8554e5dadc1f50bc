// What kernels take besides operands and results, as they take it.
#pragma once

#include <cstdint>

#include "base/dtype.h"
#include "base/shape.h"

namespace moesh::backend::cpu {

// Kept by each thread from call to call. gemm.cc, attention.cc, attention_grad.cc, norm.cc, vocab_loss.cc
std::int64_t gemm_scratch_bytes();
std::int64_t attention_bytes(const Shape& query, const Shape& key, const Shape& value);
std::int64_t attention_grad_bytes(const Shape& query, const Shape& key, const Shape& value);
std::int64_t rms_norm_grad_bytes(const Shape& x);
std::int64_t vocab_loss_bytes(std::int64_t tokens, std::int64_t vocabulary, std::int64_t width, DType dtype);

}  // namespace moesh::backend::cpu
