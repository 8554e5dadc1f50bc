#include "sharding/rules.h"

#include <algorithm>
#include <bitset>
#include <optional>

#include <fmt/core.h>

#include "base/error.h"
#include "base/text.h"

namespace moesh::sharding {
namespace {

void check_labels(const Labels& labels, const std::string& path) {
  for (std::size_t dim = 0; dim < labels.size(); ++dim) {
    if (labels[dim].empty()) continue;
    const auto twin = std::find(labels.begin() + static_cast<std::ptrdiff_t>(dim) + 1, labels.end(), labels[dim]);
    if (twin != labels.end()) {
      refuse(fmt::format("label '{}' stands on dims {} and {}, a label names one dim", shorten(labels[dim], 80), dim,
                         twin - labels.begin()),
             path);
    }
  }
}

// The first axis of the rule that a dim has already, with that dim.
std::optional<std::pair<AxisIndex, std::size_t>> conflict(const AxisList& axes, const Spec& spec) {
  for (const AxisIndex axis : axes) {
    for (std::size_t dim = 0; dim < spec.dims.size(); ++dim) {
      if (std::find(spec.dims[dim].begin(), spec.dims[dim].end(), axis) != spec.dims[dim].end()) return {{axis, dim}};
    }
  }
  return std::nullopt;
}

class Walk {
 public:
  explicit Walk(std::size_t rank) : settled_by_(rank) { result_.spec.dims.resize(rank); }

  void meet(std::size_t rule, std::size_t dim, AxisList axes) {
    RuleStep step{rule, dim};
    const auto blocked = conflict(axes, result_.spec);
    if (settled_by_[dim]) {
      step.outcome = Outcome::dim_assigned;
      step.settling_rule = *settled_by_[dim];
    } else if (blocked) {
      step.outcome = Outcome::axis_taken;
      step.blocking_axis = blocked->first;
      step.blocking_dim = blocked->second;
    } else {
      step.outcome = axes.empty() ? Outcome::settled : Outcome::taken;
      settled_by_[dim] = rule;
      result_.spec.dims[dim] = std::move(axes);
    }
    result_.steps.push_back(step);
  }

  Resolution take() { return std::move(result_); }

 private:
  Resolution result_;
  std::vector<std::optional<std::size_t>> settled_by_;
};

constexpr std::size_t kLengths = 64;  // label lengths that are told apart
std::size_t length_of(const std::string& label) { return std::min(label.size(), kLengths - 1); }

}  // namespace

AxisList axes_in_mesh(const config::AxisRule& rule, const mesh::Mesh& mesh) {
  AxisList axes;
  for (const std::string& name : rule.axes) {
    if (const auto axis = mesh.find(name)) axes.push_back(*axis);
  }
  return axes;
}

Resolution resolve(const Labels& labels, const std::vector<config::AxisRule>& rules, const mesh::Mesh& mesh,
                   const std::string& path) {
  check_labels(labels, path);
  Walk walk(labels.size());
  // Most rules have none of these labels, and the length of the rule's label rules most of them out cheaply.
  std::bitset<kLengths> lengths;
  for (const std::string& label : labels) lengths.set(length_of(label));
  for (std::size_t r = 0; r < rules.size(); ++r) {
    if (!lengths[length_of(rules[r].label)]) continue;
    const auto bearer = std::find(labels.begin(), labels.end(), rules[r].label);
    if (bearer == labels.end() || rules[r].label.empty()) continue;
    walk.meet(r, static_cast<std::size_t>(bearer - labels.begin()), axes_in_mesh(rules[r], mesh));
  }
  return walk.take();
}

Spec resolve_spec(const Labels& labels, const std::vector<config::AxisRule>& rules, const mesh::Mesh& mesh,
                  const std::string& path) {
  return resolve(labels, rules, mesh, path).spec;
}

}  // namespace moesh::sharding
