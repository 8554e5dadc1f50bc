#include "forecast/measured.h"

#include <algorithm>
#include <cmath>

#include <fmt/core.h>

namespace moesh::forecast {
namespace {

std::string_view name_of(graph::KernelKind kind) {
  switch (kind) {
    case graph::KernelKind::product: return "product";
    case graph::KernelKind::attention: return "attention";
    case graph::KernelKind::elementwise: return "elementwise";
    case graph::KernelKind::norm: return "norm";
    case graph::KernelKind::rows: return "rows";
  }
  return "";
}

}  // namespace

std::string timed_name(std::string_view op, DType dtype) { return fmt::format("{} {}", op, moesh::name_of(dtype)); }

std::string timed_name(graph::KernelKind kind, DType dtype) { return timed_name(fmt::format("any {}", name_of(kind)), dtype); }

double measure_of(const graph::Work& work) { return work.flops > 0 ? work.flops : work.bytes; }

std::optional<double> measured_seconds(const mesh::MeasuredTimes& measured, std::string_view name, double work) {
  const auto found = measured.find(name);
  if (found == measured.end() || found->second.empty()) return std::nullopt;
  const std::vector<mesh::TimedWork>& points = found->second;
  const auto above = std::find_if(points.begin(), points.end(), [&](const mesh::TimedWork& point) { return point.work >= work; });
  const mesh::TimedWork& end = above == points.end() ? points.back() : *above;
  const bool is_beyond = above == points.begin() || above == points.end();
  if (is_beyond || work <= 0) return end.work > 0 ? end.seconds * work / end.work : end.seconds;
  const mesh::TimedWork& begin = *std::prev(above);
  if (begin.work <= 0) return end.seconds;
  const double share = std::log(work / begin.work) / std::log(end.work / begin.work);
  return begin.seconds * std::pow(end.seconds / begin.seconds, share);
}

}  // namespace moesh::forecast
