// The median of the times of several rounds.
#pragma once

#include <algorithm>
#include <vector>

namespace moesh::bench {

inline double median(std::vector<double> all) {
  std::sort(all.begin(), all.end());
  return all[all.size() / 2];
}

}  // namespace moesh::bench
