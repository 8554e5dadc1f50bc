#include "advice/factorings.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <string_view>

namespace moesh::advice {
namespace {

constexpr std::array<std::string_view, 4> kGrowing{"fsdp", "expert", "tensor", "context"};

bool is_named(const std::vector<config::AxisRule>& rules, const std::string& axis) {
  return std::any_of(rules.begin(), rules.end(), [&](const config::AxisRule& rule) {
    return std::find(rule.axes.begin(), rule.axes.end(), axis) != rule.axes.end();
  });
}

// The largest size of an axis that is tried; other axes than those above only give devices up.
std::int64_t most_along(const session::Session& session, const mesh::Axis& axis, std::int64_t devices) {
  const bool may_grow = std::find(kGrowing.begin(), kGrowing.end(), axis.name) != kGrowing.end();
  const bool has_use = is_named(session.layout.rules, axis.name) && (axis.name != "expert" || session.shape.is_moe());
  return may_grow && has_use ? devices : axis.ici;
}

// A device's bytes of parameters and moments on another mesh; nothing where something does not divide.
std::optional<std::int64_t> state_on(const sharding::Layout& layout, const mesh::Mesh& mesh) {
  const sharding::Spec input = sharding::lay(layout.input.constraint, layout.rules, mesh);
  if (!sharding::divides(layout.input.shape, input, mesh)) return std::nullopt;
  std::int64_t bytes = 0;
  for (const auto* tensors : {&layout.parameters, &layout.moments}) {
    for (const sharding::LaidTensor& tensor : *tensors) {
      const sharding::Spec spec = sharding::lay(tensor.constraint, layout.rules, mesh);
      if (!sharding::divides(tensor.shape, spec, mesh)) return std::nullopt;
      bytes += elements(sharding::shard_shape(tensor.shape, spec, mesh)) * size_of(tensor.dtype);
    }
  }
  return bytes;
}

// States that differ by less than a tenth, as by what norms take, count as equal.
std::int64_t rank_of_state(std::int64_t bytes) { return std::llround(std::log(static_cast<double>(bytes)) / std::log(1.1)); }

// How far tensor and context are from what the request gives them.
double change_of(const mesh::Mesh& from, const mesh::Mesh& to) {
  double change = 0;
  for (const char* axis : {"tensor", "context"})
    change += std::abs(std::log2(static_cast<double>(to.size_of(axis)) / static_cast<double>(from.size_of(axis))));
  return change;
}

bool has_same_sizes(const mesh::Mesh& a, const mesh::Mesh& b) { return mesh::keys_between(a, b).empty(); }

}  // namespace

std::vector<Factoring> factorings(const session::Session& session) {
  std::vector<mesh::Axis> axes = session.mesh.axes();
  std::vector<Factoring> found;
  const std::function<void(std::size_t, std::int64_t)> divide = [&](std::size_t next, std::int64_t left) {
    if (next == axes.size()) {
      const mesh::Mesh mesh(axes);
      if (left > 1 || has_same_sizes(session.mesh, mesh)) return;
      if (const auto bytes = state_on(session.layout, mesh)) found.push_back({mesh, *bytes});
      return;
    }
    const mesh::Axis& axis = session.mesh.axes()[next];
    const bool stays = axis.name == "stage";
    const std::int64_t most = stays ? axis.ici : most_along(session, axis, left);
    for (std::int64_t size = stays ? axis.ici : 1; size <= std::min(most, left); ++size) {
      if (left % size != 0) continue;
      axes[next].ici = size;
      divide(next + 1, left / size);
    }
  };
  std::int64_t devices = 1;
  for (const mesh::Axis& axis : axes) devices *= axis.ici;
  divide(0, devices);
  std::stable_sort(found.begin(), found.end(), [&](const Factoring& a, const Factoring& b) {
    return std::make_pair(rank_of_state(a.state_bytes), change_of(session.mesh, a.mesh)) <
           std::make_pair(rank_of_state(b.state_bytes), change_of(session.mesh, b.mesh));
  });
  return found;
}

}  // namespace moesh::advice
