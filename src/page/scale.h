// Maps values to coordinates in a drawing.
#pragma once

#include <algorithm>
#include <limits>
#include <vector>

namespace moesh::page {

struct Scale {
  double from, to;  // coordinates of the least and the largest value
  double least = std::numeric_limits<double>::infinity(), most = -std::numeric_limits<double>::infinity();

  void see(double value) {
    least = std::min(least, value);
    most = std::max(most, value);
  }
  // Whether all values are the same but for rounding. They lie in the middle.
  bool is_flat() const;
  double at(double value) const { return is_flat() ? (from + to) / 2 : from + (to - from) * (value - least) / (most - least); }
  // About this many round numbers within the range of values.
  std::vector<double> marks(int about = 4) const;
};

}  // namespace moesh::page
