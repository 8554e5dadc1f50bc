// Rows cut out of a sequence of tokens, and the orders and sides that rows are taken in.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "data/source.h"
#include "data/token_sequence.h"

namespace moesh::data {

// Rows are gone through in blocks of all there are, each block in an order of its own.
struct Order {
  bool is_random = false;
  std::int64_t seed = 0;

  std::int64_t at(std::int64_t row, std::int64_t rows) const;
};

// A data set in two, by a hash of its documents, or of its rows' numbers: what is on which side does not change with the order or
// the number of the others.
struct Split {
  enum class Side { both, training, evaluation };
  Side side = Side::both;
  double fraction = 0;  // of it, for evaluation
  std::string where;    // that was asked for

  bool takes(std::uint64_t hash) const;
  // Refuses a side that has none of `all`.
  void check(std::int64_t taken, std::int64_t all, std::string_view what) const;
};

// One long stream of tokens, cut into rows that overlap by the token that is only a target, round and round.
std::unique_ptr<TokenSource> rows_of_stream(std::string about, std::unique_ptr<TokenSequence> tokens, Order order);

// A stream of so few tokens that a row holds them more than once.
std::string repetition_words(const std::string& about, std::int64_t tokens, std::int64_t taken);

// Those rows of another source that are on one side.
std::unique_ptr<TokenSource> rows_on_side(std::unique_ptr<TokenSource> source, const Split& split, std::int64_t length, Order order);

}  // namespace moesh::data
