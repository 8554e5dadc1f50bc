// Curves over the steps of runs, as SVG for a page whose style says their colours.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace moesh::page {

struct Curve {
  std::size_t run = 0;  // whose colour it has
  bool is_dots = false;
  std::vector<std::pair<double, double>> points;  // by step; what is not finite is left out
};

// Its title stands above it. Empty where no curve has a point.
std::string svg_of(const std::string& title, const std::vector<Curve>& curves);

}  // namespace moesh::page
