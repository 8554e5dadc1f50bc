// What of several rounds stands for them.
#pragma once

#include <algorithm>
#include <vector>

namespace moesh::bench {

inline double median(std::vector<double> all) {
  std::sort(all.begin(), all.end());
  return all[all.size() / 2];
}

}  // namespace moesh::bench
