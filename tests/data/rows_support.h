// Rows of a data source in the form in which tests compare them.
#pragma once

#include <cstdint>

#include "data/source.h"

namespace moesh::data {

// The tokens of a row: its inputs, and its last target.
inline Tokens row_of(TokenSource& from, std::int64_t row, std::int64_t count) {
  const Example made = from.example(row, count - 1);
  Tokens tokens = made.inputs;
  tokens.push_back(made.targets.back());
  return tokens;
}

inline bool operator==(const Example& a, const Example& b) {
  return a.inputs == b.inputs && a.targets == b.targets && a.positions == b.positions && a.segments == b.segments &&
         a.target_segments == b.target_segments;
}

}  // namespace moesh::data
