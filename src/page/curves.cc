#include "page/curves.h"

#include <algorithm>
#include <cmath>

#include <fmt/core.h>

#include "page/html.h"
#include "page/scale.h"

namespace moesh::page {
namespace {

constexpr double kWidth = 560, kHeight = 240, kLeft = 64, kRight = 12, kTop = 10, kBottom = 30;
constexpr std::size_t kMostPoints = 600;

// Reduces the points to keep the page small: of each piece of the curve, only the least and the largest value stay.
std::vector<std::pair<double, double>> thinned(const std::vector<std::pair<double, double>>& points) {
  if (points.size() <= kMostPoints) return points;
  std::vector<std::pair<double, double>> kept;
  const std::size_t pieces = kMostPoints / 2;
  for (std::size_t piece = 0; piece < pieces; ++piece) {
    const auto begin = points.begin() + static_cast<std::ptrdiff_t>(piece * points.size() / pieces);
    const auto end = points.begin() + static_cast<std::ptrdiff_t>((piece + 1) * points.size() / pieces);
    auto [least, most] =
        std::minmax_element(begin, end, [](const auto& a, const auto& b) { return a.second < b.second; });
    if (most < least) std::swap(least, most);
    kept.push_back(*least);
    if (most != least) kept.push_back(*most);
  }
  return kept;
}

std::string drawn(const Curve& curve, const Scale& x, const Scale& y) {
  std::string places;
  std::string made;
  for (const auto& [step, value] : thinned(curve.points)) {
    if (curve.is_dots)
      made += fmt::format("<circle class=\"run{}\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3.5\"/>", curve.run, x.at(step),
                          y.at(value));
    else
      places += fmt::format("{:.1f},{:.1f} ", x.at(step), y.at(value));
  }
  return curve.is_dots ? made : fmt::format("<polyline class=\"run{}\" points=\"{}\"/>", curve.run, places);
}

}  // namespace

std::string svg_of(const std::string& title, const std::vector<Curve>& given) {
  std::vector<Curve> curves = given;
  Scale x{kLeft, kWidth - kRight}, y{kHeight - kBottom, kTop};
  for (Curve& curve : curves) {
    std::erase_if(curve.points, [](const auto& point) { return !std::isfinite(point.second); });
    for (const auto& [step, value] : curve.points) {
      x.see(step);
      y.see(value);
    }
  }
  if (x.most < x.least) return "";
  std::string made =
      fmt::format("<figure><figcaption>{}</figcaption><svg viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{}\">",
                  escaped(title), kWidth, kHeight, escaped(title));
  for (const double mark : y.marks()) {
    made += fmt::format("<line class=\"grid\" x1=\"{}\" x2=\"{}\" y1=\"{:.1f}\" y2=\"{:.1f}\"/>", kLeft,
                        kWidth - kRight, y.at(mark), y.at(mark));
    made +=
        fmt::format("<text x=\"{}\" y=\"{:.1f}\" text-anchor=\"end\">{:.6g}</text>", kLeft - 6, y.at(mark) + 4, mark);
  }
  for (const double mark : x.marks()) {
    if (mark == std::floor(mark))
      made +=
          fmt::format("<text x=\"{:.1f}\" y=\"{}\" text-anchor=\"middle\">{:.0f}</text>", x.at(mark), kHeight - 10, mark);
  }
  for (const Curve& curve : curves) {
    if (!curve.points.empty()) made += drawn(curve, x, y);
  }
  return made + "</svg></figure>\n";
}

}  // namespace moesh::page
