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

bool is_on(const Spec& spec, AxisIndex axis) {
  return std::any_of(spec.dims.begin(), spec.dims.end(),
                     [&](const AxisList& axes) { return std::find(axes.begin(), axes.end(), axis) != axes.end(); });
}

// The first axis that could shard it and does not; empty if there is none.
std::string left_out(const LaidTensor& tensor, const mesh::Mesh& mesh) {
  for (std::size_t i = 0; i < mesh.axes().size(); ++i) {
    const auto axis = static_cast<AxisIndex>(i);
    if (shards_parameters(mesh.axis(axis)) && !is_on(tensor.spec, axis)) return mesh.axis(axis).name;
  }
  return "";
}

}  // namespace

void check_tolerance(const Layout& layout, const config::Settings& settings) {
  const double tolerance = settings.real("sharding_tolerance");
  double all = 0;
  double unsharded = 0;
  const LaidTensor* largest = nullptr;
  for (const LaidTensor& tensor : layout.parameters) {
    const auto count = static_cast<double>(elements(tensor.shape));
    all += count;
    if (left_out(tensor, layout.mesh).empty()) continue;
    unsharded += count;
    if (largest == nullptr || count > static_cast<double>(elements(largest->shape))) largest = &tensor;
  }
  if (largest == nullptr || unsharded <= tolerance * all) return;
  const std::string what =
      fmt::format("{:.1f} % of the parameters leave out an axis of the mesh, the largest is {}, which leaves out {}",
                  100 * unsharded / all, largest->path, left_out(*largest, layout.mesh));
  if (!settings.is_given("sharding_tolerance")) {
    log_warning(what);
    return;
  }
  refuse(fmt::format("{}; sharding_tolerance allows {:.1f} %", what, 100 * tolerance),
         settings.origin("sharding_tolerance").where,
         "another layout (`moesh lint` tells), or a larger sharding_tolerance");
}

}  // namespace moesh::sharding
