// What kernels take besides operands and results, as they take it.
#pragma once

#include <cstdint>

#include "base/shape.h"

namespace moesh::backend::cpu {

// Kept by each thread from call to call. gemm.cc, attention.cc, attention_grad.cc, norm.cc
std::int64_t gemm_scratch_bytes();
std::int64_t attention_bytes(const Shape& query, const Shape& key, const Shape& value);
std::int64_t attention_grad_bytes(const Shape& query, const Shape& key, const Shape& value);
std::int64_t rms_norm_grad_bytes(const Shape& x);

}  // namespace moesh::backend::cpu
