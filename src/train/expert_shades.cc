#include "train/expert_shades.h"

#include <algorithm>
#include <numeric>

namespace moesh::train {

std::vector<std::uint8_t> expert_shades(std::span<const double> tokens) {
  const double sum = std::accumulate(tokens.begin(), tokens.end(), 0.0);
  std::vector<std::uint8_t> shades;
  for (const double count : tokens) {
    const double share = sum > 0 ? count * static_cast<double>(tokens.size()) / sum : 0;
    shades.push_back(static_cast<std::uint8_t>(std::min(255.0, 127.5 * share)));
  }
  return shades;
}

}  // namespace moesh::train
