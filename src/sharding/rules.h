// Resolves the labels of a value to a spec, by an ordered list of rules, label → axes.
#pragma once

#include <string>
#include <vector>

#include "config/settings.h"
#include "sharding/labels.h"
#include "sharding/spec.h"

namespace moesh::sharding {

// The outcome of a rule whose label one of the dims has.
enum class Outcome {
  taken,         // the dim got the rule's axes
  settled,       // the rule has no axis in this mesh: the dim is unsharded, and later rules for it are passed over
  dim_assigned,  // an earlier rule settled the dim
  axis_taken,    // an axis of the rule shards another dim already, so the whole rule is passed over
};

struct RuleStep {
  std::size_t rule = 0;  // index into the list of rules
  std::size_t dim = 0;
  Outcome outcome = Outcome::taken;
  std::size_t blocking_dim = 0;    // axis_taken: the dim that has the axis
  AxisIndex blocking_axis = 0;     // axis_taken: the axis
  std::size_t settling_rule = 0;   // dim_assigned: the rule that settled the dim
};

struct Resolution {
  Spec spec;                    // with axes of size 1
  std::vector<RuleStep> steps;  // the rules that apply to this value's labels, in order
};

// The rule's axes that the mesh has.
AxisList axes_in_mesh(const config::AxisRule& rule, const mesh::Mesh& mesh);

// The spec, with the outcome of each rule. Refuses a label that two dims have.
Resolution resolve(const Labels& labels, const std::vector<config::AxisRule>& rules, const mesh::Mesh& mesh,
                   const std::string& path = {});

// The spec alone.
Spec resolve_spec(const Labels& labels, const std::vector<config::AxisRule>& rules, const mesh::Mesh& mesh,
                  const std::string& path = {});

}  // namespace moesh::sharding
