// Draws curves over the steps of runs as SVG. The style of the page sets their colours.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace moesh::page {

struct Curve {
  std::size_t run = 0;  // index of the run, which sets the colour
  bool is_dots = false;
  std::vector<std::pair<double, double>> points;  // step and value; values that are not finite are left out
};

// A figure with its title above. Empty if no curve has a point.
std::string svg_of(const std::string& title, const std::vector<Curve>& curves);

}  // namespace moesh::page
