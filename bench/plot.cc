#include "plot.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>

#include <fmt/core.h>

#include "page/html.h"

namespace moesh::bench {
namespace {

constexpr double kWidth = 380, kHeight = 300;                          // size of a panel
constexpr double kLeft = 62, kRight = 14, kTop = 34, kBottom = 48;     // margins around its plot area
constexpr const char* kColours[] = {"#1f6fb4", "#d1602a", "#3a8f47", "#8b4fa8"};

std::string text(double x, double y, const char* anchor, const std::string& words, const std::string& more = "") {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\"{}>{}</text>\n", x, y, anchor, more, page::escaped(words));
}

// Maps values to coordinates on a logarithmic scale.
struct Scale {
  double least = std::numeric_limits<double>::infinity(), most = 0;  // range of the values
  double from = 0, to = 0;                                          // range of the coordinates

  void see(double value) {
    least = std::min(least, value);
    most = std::max(most, value);
  }
  double at(double value) const { return most <= least ? (from + to) / 2 : from + (to - from) * std::log(value / least) / std::log(most / least); }
  // The marks of the axis: 1, 2 and 5 times the powers of ten in the range.
  std::vector<double> marks() const {
    std::vector<double> all;
    for (double ten = std::pow(10, std::floor(std::log10(least))); ten <= most; ten *= 10) {
      for (const double times : {1.0, 2.0, 5.0}) {
        if (times * ten >= least * 0.999 && times * ten <= most * 1.001) all.push_back(times * ten);
      }
    }
    return all;
  }
};

std::string svg_of(const Panel& panel, double left) {
  Scale x{.from = left + kLeft, .to = left + kWidth - kRight}, y{.from = kHeight - kBottom, .to = kTop};
  for (const Curve& curve : panel.curves) {
    for (const auto& [at, value] : curve.points) {
      x.see(at);
      y.see(value);
    }
  }
  y.least /= 1.5;
  y.most *= 1.5;
  std::string made = text(left + kWidth / 2, 18, "middle", panel.title, " font-weight=\"bold\"");
  made += fmt::format("<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"none\" stroke=\"#999\"/>\n", x.from, y.to, x.to - x.from, y.from - y.to);
  std::vector<double> places;
  for (const Curve& curve : panel.curves) {
    for (const auto& point : curve.points) places.push_back(point.first);
  }
  std::sort(places.begin(), places.end());
  places.erase(std::unique(places.begin(), places.end()), places.end());
  for (const double place : places) made += text(x.at(place), kHeight - kBottom + 15, "middle", fmt::format("{:g}", place));
  for (const double mark : y.marks()) {
    made += fmt::format("<line x1=\"{}\" x2=\"{}\" y1=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"#ddd\"/>\n", x.from, x.to, y.at(mark), y.at(mark));
    made += text(x.from - 5, y.at(mark) + 4, "end", fmt::format("{:g}", mark));
  }
  made += text((x.from + x.to) / 2, kHeight - 12, "middle", panel.x);
  made += text(left + 14, (y.from + y.to) / 2, "middle", panel.y, fmt::format(" transform=\"rotate(-90 {} {})\"", left + 14, (y.from + y.to) / 2));
  for (std::size_t i = 0; i < panel.curves.size(); ++i) {
    const Curve& curve = panel.curves[i];
    const char* const colour = kColours[i % std::size(kColours)];
    std::string points;
    for (const auto& [at, value] : curve.points) {
      points += fmt::format("{:.1f},{:.1f} ", x.at(at), y.at(value));
      made += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\" fill=\"{}\"/>\n", x.at(at), y.at(value), colour);
    }
    if (curve.is_joined)
      made += fmt::format("<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"1.5\"/>\n", points, colour);
    made += text(x.from + 8, kTop + 16 + 15 * static_cast<double>(i), "start", curve.name, fmt::format(" fill=\"{}\"", colour));
  }
  return made;
}

}  // namespace

std::string svg_of(const std::vector<Panel>& panels) {
  const double width = kWidth * static_cast<double>(panels.size());
  std::string made = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} {1}\" font-family=\"sans-serif\" "
      "font-size=\"11\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
      width, kHeight);
  for (std::size_t i = 0; i < panels.size(); ++i) made += svg_of(panels[i], kWidth * static_cast<double>(i));
  return made + "</svg>\n";
}

}  // namespace moesh::bench
