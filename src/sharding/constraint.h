// A layout that is asked of a value: its labels, and what the rules' answer is then changed to.
#pragma once

#include <string>
#include <vector>

#include "sharding/rules.h"

namespace moesh::sharding {

// `each_dim_alone`: dims are resolved as if the others were not there, so two may claim one axis; `peeled` axes are then
// taken off the dims in `peeled_dims` (off all dims when that is empty).
struct Constraint {
  Labels labels;
  bool each_dim_alone = false;
  std::vector<std::string> peeled;
  std::vector<int> peeled_dims;
  bool stage_as_data = false;  // beside a pipeline its stages carry the batch, before data

  bool is_plain() const { return !each_dim_alone && peeled.empty(); }
};

// The rules as a constraint beside a pipeline reads them.
std::vector<config::AxisRule> with_stage_as_data(std::vector<config::AxisRule> rules);

// Axes of size 1 included. Refuses a result in which one axis shards two dims.
Spec lay(const Constraint& constraint, const std::vector<config::AxisRule>& rules, const mesh::Mesh& mesh,
         const std::string& path = {});

}  // namespace moesh::sharding
