#include "sharding/tolerance.h"

#include <algorithm>
#include <set>

#include <fmt/core.h>

#include "base/error.h"
#include "base/log.h"

namespace moesh::sharding {
namespace {

bool shards_parameters(const mesh::Axis& axis) {
  static const std::set<std::string> kAxes{"fsdp",   "fsdp_transpose",  "sequence", "context", "context_autoregressive",
                                           "tensor", "tensor_sequence", "stage",    "expert"};
  return axis.size() > 1 && kAxes.contains(axis.name);
}

AxisList left_out(const LaidTensor& tensor, const mesh::Mesh& mesh) {
  AxisList axes;
  for (std::size_t i = 0; i < mesh.axes().size(); ++i) {
    const auto axis = static_cast<AxisIndex>(i);
    if (shards_parameters(mesh.axis(axis)) && !shards_a_dim(tensor.spec, axis)) axes.push_back(axis);
  }
  return axes;
}

}  // namespace

Unspread unspread(const Layout& layout) {
  Unspread found;
  double all = 0, left = 0;
  for (const LaidTensor& tensor : layout.parameters) {
    const auto count = static_cast<double>(elements(tensor.shape));
    all += count;
    const AxisList axes = left_out(tensor, layout.mesh);
    if (axes.empty()) continue;
    left += count;
    found.parameters.push_back({&tensor, axes});
  }
  if (all > 0) found.share = left / all;
  std::stable_sort(found.parameters.begin(), found.parameters.end(),
                   [](const LeftOut& a, const LeftOut& b) { return elements(a.tensor->shape) > elements(b.tensor->shape); });
  return found;
}

void check_tolerance(const Layout& layout, const config::Settings& settings) {
  const double tolerance = settings.real("sharding_tolerance");
  const Unspread found = unspread(layout);
  if (found.parameters.empty() || found.share <= tolerance) return;
  const LeftOut& largest = found.parameters.front();
  const std::string what =
      fmt::format("{:.1f} % of the parameters leave out an axis of the mesh, the largest is {}, which leaves out {}",
                  100 * found.share, largest.tensor->path, layout.mesh.axis(largest.axes.front()).name);
  if (!settings.is_given("sharding_tolerance")) {
    log_warning(what);
    return;
  }
  refuse(fmt::format("{}; sharding_tolerance allows {:.1f} %", what, 100 * tolerance),
         settings.origin("sharding_tolerance").where,
         "another layout (`moesh lint` tells), or a larger sharding_tolerance");
}

}  // namespace moesh::sharding
