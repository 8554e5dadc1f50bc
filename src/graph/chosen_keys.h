// The keys that an indexer chooses for each query, and how.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/rounding.h"

namespace moesh::graph {

struct IndexScoresOf {
  bool keys_by_place = false;  // the key at a place has it as its index, and those behind a query's own place have the score 0
  std::int64_t tokens_of_key = 1;  // of keys by place: a key is of so many places, and the last of them says whether it is behind a query
};
// Of the keys of its segment up to its own, a query sees those with the best scores.
struct ChooseKeysOf {
  std::int64_t keys = 1;
  bool breaks_ties = true;  // of keys with the last of these scores, takes the first ones in the order of the row; otherwise all
  bool keys_by_place = false;
  std::int64_t tokens_of_key = 1;  // as for IndexScoresOf
};
// Keys are chosen among the rows from this one on; those before it are taken too, in front.
struct ChosenRowsOf {
  std::int64_t first = 0;
};

// How many of `keys` by place, each of so many tokens, a query at a place sees.
constexpr std::int64_t keys_up_to(std::int64_t place, std::int64_t tokens_of_key, std::int64_t keys) {
  return place < 0 ? 0 : std::min((place + 1) / tokens_of_key, keys);
}

// Chosen keys are kept as bits of words, [B, S, words] of int32.
inline constexpr std::int64_t kKeysOfWord = 32;
constexpr std::int64_t words_of_keys(std::int64_t keys) { return divide_up(keys, kKeysOfWord); }

}  // namespace moesh::graph
