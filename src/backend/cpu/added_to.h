// Accumulating products: an op with one operand more than its product needs adds the result to that operand.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "backend/kernel.h"

namespace moesh::backend::cpu {

// Whether the call has an operand after the first `operands`, to which the result is added. If so, it is copied into the result first,
// unless the two are the same memory.
inline bool starts_from_operand(const KernelCall& call, std::size_t operands) {
  if (call.operands.size() == operands) return false;
  constexpr std::int64_t kBytes = 1 << 16;
  const View &sum = call.operands[operands], &result = call.results[0];
  if (sum.data == result.data) return true;
  call.workers.parallel(result.count() * size_of(result.dtype), kBytes, [&](std::int64_t begin, std::int64_t end) {
    std::memcpy(result.raw() + begin, sum.raw() + begin, static_cast<std::size_t>(end - begin));
  });
  return true;
}

}  // namespace moesh::backend::cpu
