// Layers of different kinds, as the shortest cycle that repeats.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace moesh::config {

// The length of the shortest cycle that, repeated, gives all words; 1 if there are none.
inline std::size_t cycle_of(const std::vector<std::string>& words) {
  for (std::size_t cycle = 1; cycle < words.size(); ++cycle) {
    if (words.size() % cycle != 0) continue;
    bool repeats = true;
    for (std::size_t i = cycle; i < words.size() && repeats; ++i) repeats = words[i] == words[i - cycle];
    if (repeats) return cycle;
  }
  return words.empty() ? 1 : words.size();
}

}  // namespace moesh::config
