#include "page/scale.h"

#include <cmath>

namespace moesh::page {

std::vector<double> Scale::marks(int about) const {
  if (most <= least) return {least};
  const double rough = (most - least) / about, ten = std::pow(10, std::floor(std::log10(rough)));
  const double step = rough < 2 * ten ? 2 * ten : rough < 5 * ten ? 5 * ten : 10 * ten;
  std::vector<double> all;
  for (double mark = std::ceil(least / step) * step; mark <= most + 1e-9 * step; mark += step)
    all.push_back(std::abs(mark) < 1e-9 * step ? 0 : mark);
  return all;
}

}  // namespace moesh::page
