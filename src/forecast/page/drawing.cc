#include "forecast/page/drawing.h"

#include <algorithm>

#include <fmt/core.h>

#include "base/text.h"
#include "page/html.h"
#include "page/scale.h"

namespace moesh::forecast {
namespace {

using page::escaped;

constexpr double kColumn = 6.3;  // approximate width of a character in text of 11 pixels

std::string tick_words(double seconds, double largest) {
  const double unit = largest >= 1 ? 1 : largest >= 1e-3 ? 1e-3 : 1e-6;
  return fmt::format("{:.4g} {}", seconds / unit, unit == 1 ? "s" : unit == 1e-3 ? "ms" : "\u00b5s");
}

// A path along the upper edge of columns; neighbours of equal height are merged.
std::string edge(const std::vector<double>& heights, double left, double column, double bottom) {
  std::string path;
  std::string before;
  for (std::size_t i = 0; i < heights.size(); ++i) {
    std::string y = fmt::format("{:.1f}", bottom - heights[i]);
    if (y == before) continue;
    if (i > 0) path += fmt::format("H{:.1f}", left + static_cast<double>(i) * column);
    path += "V" + y;
    before = std::move(y);
  }
  return path + fmt::format("H{:.1f}", left + static_cast<double>(heights.size()) * column);
}

// The same from right to left.
std::string edge_back(const std::vector<double>& heights, double left, double column, double bottom) {
  std::string path;
  std::string before;
  for (std::size_t i = heights.size(); i-- > 0;) {
    std::string y = fmt::format("{:.1f}", bottom - heights[i]);
    if (y == before) continue;
    if (!before.empty()) path += fmt::format("H{:.1f}", left + static_cast<double>(i + 1) * column);
    path += "V" + y;
    before = std::move(y);
  }
  return path + fmt::format("H{:.1f}", left);
}

}  // namespace

std::string rect(const Box& box, const std::string& classes, const std::string& title) {
  const std::string head =
      fmt::format("<rect class=\"{}\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\"", classes, box.x,
                  box.y, std::max(box.width, 0.1), box.height);
  return title.empty() ? head + "/>" : fmt::format("{}><title>{}</title></rect>", head, escaped(title));
}

std::string label(double x, double y, const std::string& text, const std::string& classes, const std::string& anchor) {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\"{}{}>{}</text>", x, y,
                     classes.empty() ? "" : fmt::format(" class=\"{}\"", classes),
                     anchor.empty() ? "" : fmt::format(" text-anchor=\"{}\"", anchor), escaped(text));
}

std::string line(double x1, double y1, double x2, double y2, const std::string& classes) {
  return fmt::format("<line class=\"{}\" x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\"/>", classes, x1, y1,
                     x2, y2);
}

std::string svg(double height, const std::string& about, const std::string& inside) {
  return fmt::format(
      "<div class=\"scroll\"><svg class=\"wide\" viewBox=\"0 0 {} {:.0f}\" role=\"img\" "
      "aria-label=\"{}\">{}</svg></div>\n",
      kDrawn, height, escaped(about), inside);
}

std::string svg_of_width(double width, double height, const std::string& about, const std::string& inside) {
  return fmt::format(
      "<div class=\"scroll\"><svg style=\"width:{0:.0f}px\" viewBox=\"0 0 {0:.0f} {1:.0f}\" role=\"img\" "
      "aria-label=\"{2}\">{3}</svg></div>\n",
      width, height, escaped(about), inside);
}

std::string fitting(const std::string& text, double width) {
  const int columns = static_cast<int>((width - 6) / kColumn);
  if (display_width(text) <= columns) return text;
  return columns < 5 ? "" : shorten(text, columns);
}

std::string stacked(const std::vector<Layer>& layers, double left, double column, double bottom) {
  std::string made;
  if (layers.empty()) return made;
  std::vector<double> lower(layers.front().heights.size());
  for (const Layer& layer : layers) {
    std::vector<double> upper = lower;
    bool is_there = false;
    for (std::size_t i = 0; i < upper.size(); ++i) {
      upper[i] += layer.heights[i];
      is_there = is_there || layer.heights[i] > 0.05;
    }
    if (is_there)
      made += fmt::format("<path class=\"{}\" d=\"M{:.1f} {:.1f}{}{}Z\"/>", layer.classes, left, bottom - lower[0],
                          edge(upper, left, column, bottom), edge_back(lower, left, column, bottom));
    lower = std::move(upper);
  }
  return made;
}

std::string component_class(int component) { return fmt::format("m{}", component); }

std::vector<Layer> memory_layers(const Course& course, const std::vector<plan::InstructionId>& at,
                                 const std::function<double(double)>& height) {
  std::vector<Layer> layers;
  for (int component = 0; component < kComponents; ++component) {
    Layer layer{component_class(component), std::vector<double>(at.size())};
    for (std::size_t column = 0; column < at.size(); ++column) {
      if (at[column] < 0) continue;
      const Components& held = course.memory[static_cast<std::size_t>(at[column])];
      layer.heights[column] = height(static_cast<double>(held[static_cast<std::size_t>(component)]));
    }
    layers.push_back(std::move(layer));
  }
  return layers;
}

std::string time_axis(double left, double right, double top, double bottom, double begin, double seconds) {
  page::Scale scale{left, right, 0, seconds};
  std::string made;
  for (const double mark : scale.marks(8)) {
    const double x = scale.at(mark);
    made += line(x, top, x, bottom, "grid") +
            label(x, bottom + 14, tick_words(begin + mark, begin + seconds), "", x > right - 24 ? "end" : "middle");
  }
  return made;
}

std::string to_html(const Legend& legend) {
  std::string made = "<div class=\"legend\">";
  for (const auto& [classes, words] : legend)
    made += fmt::format("<span><i class=\"key {}\"></i>{}</span>", classes, escaped(words));
  return made + "</div>\n";
}

}  // namespace moesh::forecast
