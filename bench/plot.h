// Curves and points as a picture: panels side by side, both axes logarithmic.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace moesh::bench {

struct Curve {
  std::string name;
  std::vector<std::pair<double, double>> points;  // above 0, by x
  bool is_joined = true;                          // by a line
};

struct Panel {
  std::string title, x, y;  // what the axes are
  std::vector<Curve> curves;
};

// SVG that stands alone.
std::string svg_of(const std::vector<Panel>& panels);

}  // namespace moesh::bench
