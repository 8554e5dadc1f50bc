// Rows cut out of a sequence of tokens, the order in which rows are taken, and the split between training and evaluation.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "data/source.h"
#include "data/token_sequence.h"

namespace moesh::data {

// Rows are taken in rounds through all of them; if the order is random, each round has its own.
struct Order {
  bool is_random = false;
  std::int64_t seed = 0;

  std::int64_t at(std::int64_t row, std::int64_t rows) const;
};

// A data set in two parts, by a hash of its documents or of its rows' numbers: on which side one of them is does not change with the order
// or the number of the others.
struct Split {
  enum class Side { both, training, evaluation };
  Side side = Side::both;
  double fraction = 0;  // share of the data for evaluation
  std::string where;    // where the split was asked for

  bool takes(std::uint64_t hash) const;
  // Refuses the split if its side has none of `all`.
  void check(std::int64_t taken, std::int64_t all, std::string_view what) const;
};

// One long stream of tokens that goes round and round, cut into rows; a row's last token is only a target, and is the next row's first.
// Places are those of rows of `length` inputs.
std::unique_ptr<TokenSource> rows_of_stream(std::string about, std::unique_ptr<TokenSequence> tokens, std::int64_t length, Order order);

// A notice that a stream has so few tokens that a row holds all of them more than once.
std::string repetition_words(const std::string& about, std::int64_t tokens, std::int64_t taken);

// The rows of another source that are on one side of a split.
std::unique_ptr<TokenSource> rows_on_side(std::unique_ptr<TokenSource> source, const Split& split, std::int64_t length, Order order);

}  // namespace moesh::data
