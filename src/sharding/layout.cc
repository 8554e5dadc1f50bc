#include "sharding/layout.h"

#include <fmt/core.h>

#include "base/error.h"
#include "base/text.h"
#include "sharding/labels.h"
#include "sharding/report.h"

namespace moesh::sharding {
namespace {

// Where the rule stands that gave a dim its axes; empty if there is none.
std::string rule_behind(const LaidTensor& tensor, std::size_t dim, const std::vector<config::AxisRule>& rules,
                        const mesh::Mesh& mesh) {
  for (const RuleStep& step : resolve(tensor.labels(), rules, mesh).steps) {
    if (step.dim == dim && step.outcome == Outcome::taken) return rules[step.rule].where;
  }
  return "";
}

// The settings that give these axes their sizes, where they are larger than 1.
std::vector<std::string> size_keys(const AxisList& axes, const mesh::Mesh& mesh) {
  std::vector<std::string> keys;
  for (const AxisIndex index : axes) {
    const mesh::Axis& axis = mesh.axis(index);
    if (axis.ici > 1) keys.push_back(mesh::key_for(mesh::Level::ici, axis.name));
    if (axis.dcn > 1) keys.push_back(mesh::key_for(mesh::Level::dcn, axis.name));
  }
  return keys;
}

}  // namespace

std::int64_t whole_bytes(const LaidTensor& tensor) { return elements(tensor.shape) * size_of(tensor.dtype); }

std::int64_t bytes_per_device(const LaidTensor& tensor, const mesh::Mesh& mesh) {
  return shard_bytes(tensor.shape, tensor.dtype, tensor.spec, mesh);
}

std::int64_t replicas(const LaidTensor& tensor, const mesh::Mesh& mesh) {
  return mesh.devices() / shards(tensor.spec, mesh);
}

std::int64_t state_bytes(const Layout& layout) {
  std::int64_t bytes = 0;
  for (const auto* tensors : {&layout.parameters, &layout.moments}) {
    for (const LaidTensor& tensor : *tensors) bytes += bytes_per_device(tensor, layout.mesh);
  }
  return bytes;
}

std::vector<const LaidTensor*> moved_moments(const Layout& layout) {
  std::vector<const LaidTensor*> moved;
  for (const LaidTensor& moment : layout.moments) {
    const auto parameter = std::lower_bound(layout.parameters.begin(), layout.parameters.end(), moment.moment_of,
                                            [](const LaidTensor& p, const std::string& name) { return p.path < name; });
    if (!(moment.spec == parameter->spec)) moved.push_back(&moment);
  }
  return moved;
}

Spec over_data(const Shape& shape, const Spec& spec, const mesh::Mesh& mesh) {
  const auto data = mesh.find("data");
  if (!data) return spec;
  const auto tensor = mesh.find("tensor");
  for (const AxisList& axes : spec.dims) {
    if (holds(axes, *data)) return spec;
  }
  const Shape local = shard_shape(shape, spec, mesh);
  for (std::size_t dim = 0; dim < shape.size(); ++dim) {
    if (local[dim] % mesh.axis(*data).size() != 0 || (tensor && holds(spec.dims[dim], *tensor))) continue;
    Spec moved = spec;
    moved.dims[dim].insert(moved.dims[dim].begin(), *data);
    return moved;
  }
  return spec;
}

void check_even(const LaidTensor& tensor, const Layout& layout) {
  const mesh::Mesh& mesh = layout.mesh;
  for (std::size_t dim = 0; dim < tensor.shape.size(); ++dim) {
    const std::int64_t blocks = shards(tensor.spec.dims[dim], mesh);
    if (tensor.shape[dim] % blocks == 0) continue;
    const std::string rule = rule_behind(tensor, dim, layout.rules, mesh);
    const std::string& label = tensor.labels()[dim];
    refuse(fmt::format("dim {} ('{}', size {}) does not divide over {} = {} shards{}", dim, label, tensor.shape[dim],
                       axis_names(tensor.spec.dims[dim], mesh), blocks, rule.empty() ? "" : " (rule at " + rule + ")"),
           tensor.path,
           fmt::format("choose {}axis sizes that divide it ({}), or {}{}",
                       labels::is_batch(label) ? "another batch (per_device_batch_size; for texts --batch), " : "",
                       join(size_keys(tensor.spec.dims[dim], mesh), ", "),
                       layout.rule_set.empty()
                           ? fmt::format("a rule that lays the dim elsewhere (logical_axis_rules=[[{},[]]]: whole)", label)
                           : "another rule set, as logical_axis_rules give way to custom_mesh_and_rule",
                       layout.states.empty() ? "; `moesh lint` tries what would" : ""));
  }
}

}  // namespace moesh::sharding
