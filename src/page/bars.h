// Draws horizontal bars as a picture of its own, light or dark as its reader prefers.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace moesh::page {

struct Bar {
  std::string name;
  double value = 0;
  std::optional<double> beside = {};  // a second, thinner bar below
  std::string words;                  // behind the bars
};

struct Bars {
  std::string title;
  std::string value, beside;  // what the bars are; `beside` is left out if no bar has a second one
  std::vector<Bar> bars;
};

// A complete SVG file.
std::string svg_of(const Bars& of);

}  // namespace moesh::page
