// The keys that an indexer chooses for each query, and how.
#pragma once

#include <cstdint>

#include "base/rounding.h"

namespace moesh::graph {

struct IndexScoresOf {
  bool keys_by_place = false;  // the key at a place has it as its index, and those behind a query's own place have the score 0
};
// Of the keys of its segment up to its own, a query sees those with the best scores.
struct ChooseKeysOf {
  std::int64_t keys = 1;
  bool breaks_ties = true;  // of keys with the last of these scores, takes the first ones in the order of the row; otherwise all
  bool keys_by_place = false;
};

// Chosen keys are kept as bits of words, [B, S, words] of int32.
inline constexpr std::int64_t kKeysOfWord = 32;
constexpr std::int64_t words_of_keys(std::int64_t keys) { return divide_up(keys, kKeysOfWord); }

}  // namespace moesh::graph
