// Draws curves and points as a picture: panels side by side, with both axes logarithmic.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace moesh::bench {

struct Curve {
  std::string name;
  std::vector<std::pair<double, double>> points;  // positive values, in order of x
  bool is_joined = true;                          // whether a line joins the points
};

struct Panel {
  std::string title, x, y;  // titles of the panel and of its axes
  std::vector<Curve> curves;
};

// A complete SVG file.
std::string svg_of(const std::vector<Panel>& panels);

}  // namespace moesh::bench
