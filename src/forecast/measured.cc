#include "forecast/measured.h"

#include <algorithm>
#include <cmath>

#include <fmt/core.h>

namespace moesh::forecast {
namespace {

std::string_view bound_of(graph::KernelKind kind) {
  switch (kind) {
    case graph::KernelKind::product: return "product";
    case graph::KernelKind::attention: return "attention";
    case graph::KernelKind::elementwise: return "elementwise";
    case graph::KernelKind::norm: return "norm";
    case graph::KernelKind::rows: return "rows";
  }
  return "";
}

using Points = std::vector<mesh::TimedWork>;

const Points* points_under(const mesh::MeasuredTimes& measured, std::string_view name) {
  const auto found = measured.find(name);
  return found == measured.end() || found->second.empty() ? nullptr : &found->second;
}

// Work far outside the measured points may have another bound than they have.
bool are_near(const Points& points, double work) {
  constexpr double kNear = 4;
  return work * kNear >= points.front().work && work <= kNear * points.back().work;
}

double seconds_by(const Points& points, double work) {
  const auto above = std::find_if(points.begin(), points.end(), [&](const mesh::TimedWork& point) { return point.work >= work; });
  const mesh::TimedWork& end = above == points.end() ? points.back() : *above;
  const bool is_beyond = above == points.begin() || above == points.end();
  if (is_beyond || work <= 0) return end.work > 0 ? end.seconds * work / end.work : end.seconds;
  const mesh::TimedWork& begin = *std::prev(above);
  if (begin.work <= 0) return end.seconds;
  const double share = std::log(work / begin.work) / std::log(end.work / begin.work);
  return begin.seconds * std::pow(end.seconds / begin.seconds, share);
}

}  // namespace

std::string timed_name(std::string_view op, DType dtype) { return fmt::format("{} {}", op, moesh::name_of(dtype)); }

std::string timed_name(graph::KernelKind kind, DType dtype) { return timed_name(fmt::format("any {}", bound_of(kind)), dtype); }

double measure_of(const graph::Work& work) { return work.flops > 0 ? work.flops : work.bytes; }

std::optional<double> measured_seconds(const mesh::MeasuredTimes& measured, std::string_view name, std::string_view otherwise,
                                       double work) {
  const Points* own = points_under(measured, name);
  const Points* any = points_under(measured, otherwise);
  if (own == nullptr && any == nullptr) return std::nullopt;
  const bool takes_any = own == nullptr || (any != nullptr && !are_near(*own, work) && are_near(*any, work));
  return seconds_by(takes_any ? *any : *own, work);
}

}  // namespace moesh::forecast
