// A sharding constraint on a value: its labels, and changes to the spec that the rules give for them.
#pragma once

#include <string>
#include <vector>

#include "sharding/rules.h"

namespace moesh::sharding {

// `each_dim_alone`: each dim is resolved without regard to the others, so that two may claim one axis. Then the `peeled` axes are
// removed from the dims in `peeled_dims` (from all dims if that is empty).
struct Constraint {
  Labels labels;
  bool each_dim_alone = false;
  std::vector<std::string> peeled = {};
  std::vector<int> peeled_dims = {};
  bool stage_as_data = false;  // for layers outside the pipeline: axis stage shards the batch, before data
  bool over_data = false;      // as moments lie under shard_optimizer_over_data, see sharding/layout.h
  bool unreduced = false;      // a partial sum stays one over the axes that shard none of its dims
  int unlisted = 0;            // so many of the last dims have no label and are left out where labels are listed, as in MaxText

  bool is_plain() const { return !each_dim_alone && peeled.empty(); }
};

// The rules as a constraint with stage_as_data reads them: axis stage is removed from all rules, and put before data in those that have
// data.
std::vector<config::AxisRule> with_stage_as_data(std::vector<config::AxisRule> rules);

// The spec of a constraint, with its axes of size 1. Refuses a spec in which one axis shards two dims.
Spec lay(const Constraint& constraint, const std::vector<config::AxisRule>& rules, const mesh::Mesh& mesh,
         const std::string& path = {});

}  // namespace moesh::sharding
