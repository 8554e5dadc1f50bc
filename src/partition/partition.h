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

// How an op can be done: where its operands and results lie, and what that takes with the ways there.
struct Answer {
  std::vector<sharding::Spec> operands;
  std::vector<sharding::Spec> results;
  double seconds = 0;
};

// "[fsdp, -, -], [-, -] -> [fsdp, -, -]"
std::string to_string(const Answer& answer, const mesh::Mesh& mesh);

// What was chosen for an op, and the next best.
struct Choice {
  std::string path;
  graph::Op op = graph::Op::einsum;
  std::string equation;  // of an einsum
  graph::Phase phase = graph::Phase::forward;
  Answer chosen;
  Answer runner_up;
};

struct Partitioned {
  graph::Graph graph;
  graph::Graph expanded;        // what it was made from, see expand.h
  std::vector<Choice> choices;  // of ops that had one, in the order of the graph, bodies where they stand
};

// Nodes of the update are free: products may lie where none of their operands does, and what follows stays there until
// something else is asked of it. A constraint of the update is met where it stands.
// `roots`: how inputs and parameters lie, in the graph's order; `results`: how results must lie, or nothing where any layout
// will do. Constraints are gone afterwards: what they ask for has happened.
Partitioned partition(const graph::Graph& graph, const std::vector<sharding::Spec>& roots,
                      const std::vector<std::optional<sharding::Spec>>& results, const PartitionRequest& request);

}  // namespace moesh::partition
