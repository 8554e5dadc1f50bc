// What the result of a product is added to, where the op has one operand more.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "backend/kernel.h"

namespace moesh::backend::cpu {

// Whether there is one behind so many operands. It then lies where the result is made, copied there unless it did before.
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
