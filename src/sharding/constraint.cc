#include "sharding/constraint.h"

#include <algorithm>
#include <map>

#include <fmt/core.h>

#include "base/error.h"
#include "base/text.h"

namespace moesh::sharding {
namespace {

Spec resolve_dims_alone(const Labels& labels, const std::vector<config::AxisRule>& rules, const mesh::Mesh& mesh) {
  Spec spec;
  for (const std::string& label : labels) spec.dims.push_back(resolve_spec({label}, rules, mesh).dims.front());
  return spec;
}

void peel(const Constraint& constraint, const mesh::Mesh& mesh, Spec& spec) {
  for (std::size_t dim = 0; dim < spec.dims.size(); ++dim) {
    const auto& dims = constraint.peeled_dims;
    if (!dims.empty() && std::find(dims.begin(), dims.end(), static_cast<int>(dim)) == dims.end()) continue;
    erase_if(spec.dims[dim], [&](AxisIndex axis) {
      const auto& names = constraint.peeled;
      return std::find(names.begin(), names.end(), mesh.axis(axis).name) != names.end();
    });
  }
}

void check_axes_once(const Constraint& constraint, const Spec& spec, const mesh::Mesh& mesh, const std::string& path) {
  std::map<AxisIndex, std::size_t> seen;
  for (std::size_t dim = 0; dim < spec.dims.size(); ++dim) {
    for (const AxisIndex axis : spec.dims[dim]) {
      const auto [first, is_new] = seen.emplace(axis, dim);
      if (is_new || mesh.axis(axis).size() == 1) continue;
      const auto of_dim = [&](std::size_t i) {
        std::vector<std::string> names;
        for (const AxisIndex own : spec.dims[i]) names.push_back(mesh.axis(own).name);
        return fmt::format("dim {} ({} -> {})", i, i < constraint.labels.size() ? constraint.labels[i] : "no label", join(names, ", "));
      };
      refuse(fmt::format("axis '{}' would shard two dims of one value: {} and {}", mesh.axis(axis).name, of_dim(first->second),
                         of_dim(dim)),
             path,
             constraint.each_dim_alone ? "change the rules of one of these labels, or moe_dispatch_no_expert_sharding=false"
                                       : "change the rules of one of these labels");
    }
  }
}

}  // namespace

std::vector<config::AxisRule> with_stage_as_data(std::vector<config::AxisRule> rules) {
  for (config::AxisRule& rule : rules) {
    std::erase(rule.axes, "stage");
    const auto data = std::find(rule.axes.begin(), rule.axes.end(), "data");
    if (data != rule.axes.end()) rule.axes.insert(data, "stage");
  }
  return rules;
}

Spec lay(const Constraint& constraint, const std::vector<config::AxisRule>& rules, const mesh::Mesh& mesh,
         const std::string& path) {
  if (constraint.stage_as_data) {
    Constraint plain = constraint;
    plain.stage_as_data = false;
    return lay(plain, with_stage_as_data(rules), mesh, path);
  }
  Spec spec = constraint.each_dim_alone ? resolve_dims_alone(constraint.labels, rules, mesh)
                                        : resolve_spec(constraint.labels, rules, mesh, path);
  peel(constraint, mesh, spec);
  check_axes_once(constraint, spec, mesh, path);
  return spec;
}

}  // namespace moesh::sharding
