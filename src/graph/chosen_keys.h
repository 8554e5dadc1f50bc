// How the keys are kept that are chosen for each query: as bits of words, [B, S, words] of int32.
#pragma once

#include <cstdint>

#include "base/rounding.h"

namespace moesh::graph {

inline constexpr std::int64_t kKeysOfWord = 32;
constexpr std::int64_t words_of_keys(std::int64_t keys) { return divide_up(keys, kKeysOfWord); }

}  // namespace moesh::graph
