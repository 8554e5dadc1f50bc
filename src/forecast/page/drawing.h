// The elements of the page's drawings: SVG shapes, and legends beside them.
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

// `title` is shown when the pointer rests on the box; it may be empty.
std::string rect(const Box& box, const std::string& classes, const std::string& title = {});
// A text that begins at x. With the anchor "end" or "middle" it ends there or is centred there.
std::string label(double x, double y, const std::string& text, const std::string& classes = {},
                  const std::string& anchor = {});
std::string line(double x1, double y1, double x2, double y2, const std::string& classes);
// A drawing of width kDrawn, which scrolls on a narrow screen. `about` describes it to screen readers.
std::string svg(double height, const std::string& about, const std::string& inside);
// A drawing of its own width.
std::string svg_of_width(double width, double height, const std::string& about, const std::string& inside);

// The text if it fits the width in small type, otherwise as much of it as fits; empty if that is too little.
std::string fitting(const std::string& text, double width);

// One layer of a stacked drawing with equally wide columns: in each column the layers stand on one another, the first one on `bottom`.
struct Layer {
  std::string classes;
  std::vector<double> heights;  // in the drawing's units, by column
};
std::string stacked(const std::vector<Layer>& layers, double left, double column, double bottom);

// The CSS class of a memory component.
std::string component_class(int component);
// The memory components that are live at one instruction per column; -1: nothing is drawn there. `height` maps bytes to a height.
std::vector<Layer> memory_layers(const Course& course, const std::vector<plan::InstructionId>& at,
                                 const std::function<double(double)>& height);

// Round times below a drawing, with lines up to `top`.
std::string time_axis(double left, double right, double top, double bottom, double begin, double seconds);

using Legend = std::vector<std::pair<std::string, std::string>>;  // classes, words
std::string to_html(const Legend& legend);

}  // namespace moesh::forecast
