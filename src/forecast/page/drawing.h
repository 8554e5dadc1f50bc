// What the page's drawings are made of: shapes in SVG, and legends beside them.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "forecast/page/course.h"

namespace moesh::forecast {

inline constexpr double kDrawn = 1160;  // the width of a drawing

struct Box {
  double x = 0, y = 0, width = 0, height = 0;
};

// `title` is shown where the pointer rests; it may be empty.
std::string rect(const Box& box, const std::string& classes, const std::string& title = {});
// A text that begins at x; "end" or "middle" as anchor: that ends there or has its middle there.
std::string label(double x, double y, const std::string& text, const std::string& classes = {},
                  const std::string& anchor = {});
std::string line(double x1, double y1, double x2, double y2, const std::string& classes);
// As wide as drawings are; where the screen is narrow it scrolls. `about` is for those who do not see it.
std::string svg(double height, const std::string& about, const std::string& inside);
// At its own size.
std::string svg_of_width(double width, double height, const std::string& about, const std::string& inside);

// How many columns a small text takes at most, and whether it fits; the text shortened to what fits, nothing where that
// is little.
std::string fitting(const std::string& text, double width);

// A part of `height` above `bottom` for each layer, in each of equal columns: layers stand on one another. Classes by
// layer.
struct Layer {
  std::string classes;
  std::vector<double> heights;  // in the drawing's units, by column
};
std::string stacked(const std::vector<Layer>& layers, double left, double column, double bottom);

// The mark of a component of memory.
std::string component_class(int component);
// What is held at instructions, by column: -1 where nothing is drawn. `height`: of so many bytes.
std::vector<Layer> memory_layers(const Course& course, const std::vector<plan::InstructionId>& at,
                                 const std::function<double(double)>& height);

// Round times below a drawing, with lines up to `top`.
std::string time_axis(double left, double right, double top, double bottom, double begin, double seconds);

using Legend = std::vector<std::pair<std::string, std::string>>;  // classes, words
std::string to_html(const Legend& legend);

}  // namespace moesh::forecast
