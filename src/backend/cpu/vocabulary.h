// What the embedding and the losses over a vocabulary share.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "backend/kernel.h"

namespace moesh::backend::cpu {

// Names row and position, so that users find the token in their data.
[[noreturn]] void fail_token(const char* what, std::int32_t token, std::int64_t index, const View& tokens, std::int64_t vocabulary);

// The logarithm of the normaliser of a row, from the logarithms of its pieces.
template <typename W>
inline W log_of_all(const W* logs, std::int64_t pieces) {
  const W largest = *std::max_element(logs, logs + pieces);
  W sum = 0;
  for (std::int64_t i = 0; i < pieces; ++i) sum += std::exp(logs[i] - largest);
  return largest + std::log(sum);
}

}  // namespace moesh::backend::cpu
