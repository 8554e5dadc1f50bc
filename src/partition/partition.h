// From a graph on global shapes to one whose values say how they lie, with the collectives between them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "mesh/mesh.h"
#include "mesh/topology.h"
#include "sharding/spec.h"

namespace moesh::partition {

struct PartitionRequest {
  const mesh::Mesh& mesh;
  const mesh::Topology& target;  // whose figures price the choices
  const std::vector<config::AxisRule>& rules;
  bool explicit_mode = false;    // operands must agree already; an update's need not
};

// What was chosen for an op, and the next best.
struct Choice {
  std::string path;
  std::string op;
  std::string chosen;  // "bsm[fsdp, -, -], mh[-, -] -> bsh[fsdp, -, -]"
  double seconds = 0;
  std::string runner_up;
  double runner_up_seconds = 0;
};

struct Partitioned {
  graph::Graph graph;
  std::vector<Choice> choices;  // of ops that had one
};

// Nodes of the update are free: products may lie where none of their operands does, and what follows stays there until
// something else is asked of it. A constraint of the update is met where it stands.
// `roots`: how inputs and parameters lie, in the graph's order; `results`: how results must lie, or nothing where any layout
// will do. Constraints are gone afterwards: what they ask for has happened.
Partitioned partition(const graph::Graph& graph, const std::vector<sharding::Spec>& roots,
                      const std::vector<std::optional<sharding::Spec>>& results, const PartitionRequest& request);

}  // namespace moesh::partition
