// The keys that choose_keys has chosen for each query, and what the indexer's kernels agree on.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "backend/kernel.h"
#include "graph/chosen_keys.h"

namespace moesh::backend {

inline constexpr double kIndexEpsilon = 1e-8;  // added to the probabilities of an index_loss, as in MaxText

// A number that is larger for a better score, above 0 and below the largest. All NaN are equal, and better than any number.
template <typename W>
[[gnu::always_inline]] inline auto rank_of(W score) {
  using Bits = std::conditional_t<sizeof(W) == 8, std::uint64_t, std::uint32_t>;
  constexpr Bits kSign = Bits(1) << (8 * sizeof(W) - 1);
  const Bits bits = std::bit_cast<Bits>(score + W(0));  // of -0 those of 0
  const Bits rank = (bits & kSign) != 0 ? Bits(~bits) : Bits(bits | kSign);
  return score != score ? std::numeric_limits<Bits>::max() - 1 : rank;
}

class ChosenKeys {
 public:
  explicit ChosenKeys(const View& chosen) : bits_(chosen.as<const std::int32_t>()), words_(chosen.size(2)) {}

  // The words of a query, counted over all rows.
  const std::int32_t* of_query(std::int64_t query) const { return bits_ + query * words_; }
  bool has(std::int64_t query, std::int64_t key) const {
    return (static_cast<std::uint32_t>(of_query(query)[key / graph::kKeysOfWord]) >> (key % graph::kKeysOfWord) & 1) != 0;
  }

  // One more than the last key of some queries.
  std::int64_t end(std::int64_t first_query, std::int64_t queries) const {
    for (std::int64_t word = words_; word-- > 0;) {
      std::uint32_t any = 0;
      for (std::int64_t query = 0; query < queries; ++query) any |= static_cast<std::uint32_t>(of_query(first_query + query)[word]);
      if (any != 0) return word * graph::kKeysOfWord + graph::kKeysOfWord - std::countl_zero(any);
    }
    return 0;
  }

  // Calls see(key) for each of a query's keys, in their order.
  template <typename See>
  void each(std::int64_t query, const See& see) const {
    const std::int32_t* const of = of_query(query);
    for (std::int64_t word = 0; word < words_; ++word) {
      for (auto left = static_cast<std::uint32_t>(of[word]); left != 0; left &= left - 1)
        see(word * graph::kKeysOfWord + std::countr_zero(left));
    }
  }

 private:
  const std::int32_t* bits_;
  std::int64_t words_;
};

}  // namespace moesh::backend
