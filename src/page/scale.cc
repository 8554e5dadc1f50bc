#include "page/scale.h"

#include <cmath>

namespace moesh::page {

bool Scale::is_flat() const {
  constexpr double kRounding = 1e-9;  // of the values: less is how they were computed
  return !(most - least > kRounding * std::max(std::abs(least), std::abs(most)));
}

std::vector<double> Scale::marks(int about) const {
  if (is_flat()) return {least};
  const double rough = (most - least) / about, ten = std::pow(10, std::floor(std::log10(rough)));
  const double step = rough < 2 * ten ? 2 * ten : rough < 5 * ten ? 5 * ten : 10 * ten;
  std::vector<double> all;
  for (double i = std::ceil(least / step); i * step <= most + 1e-9 * step; ++i) all.push_back(i == 0 ? 0 : i * step);
  return all;
}

}  // namespace moesh::page
