// How an ordered list of rules, label → axes, becomes a spec.
#pragma once

#include <string>
#include <vector>

#include "config/settings.h"
#include "sharding/labels.h"
#include "sharding/spec.h"

namespace moesh::sharding {

// What became of a rule whose label one of the dims bears.
enum class Outcome {
  taken,         // the dim got the rule's axes
  settled,       // the rule has no axis in this mesh: the dim is replicated, and later rules for it do not count
  dim_assigned,  // an earlier rule settled the dim
  axis_taken,    // an axis of the rule shards another dim already, so the rule is passed over whole
};

struct RuleStep {
  std::size_t rule = 0;  // index into the list
  std::size_t dim = 0;
  Outcome outcome = Outcome::taken;
  std::size_t blocking_dim = 0;    // axis_taken: the dim that holds it
  AxisIndex blocking_axis = 0;     // axis_taken: the axis
  std::size_t settling_rule = 0;   // dim_assigned: the rule that settled the dim
};

struct Resolution {
  Spec spec;                    // axes of size 1 included
  std::vector<RuleStep> steps;  // the rules that concern this value, in order
};

// Refuses a label that stands on two dims.
Resolution resolve(const Labels& labels, const std::vector<config::AxisRule>& rules, const mesh::Mesh& mesh,
                   const std::string& path = {});

// The spec alone.
Spec resolve_spec(const Labels& labels, const std::vector<config::AxisRule>& rules, const mesh::Mesh& mesh,
                  const std::string& path = {});

}  // namespace moesh::sharding
