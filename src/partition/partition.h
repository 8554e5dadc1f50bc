// The partitioner: turns a graph on global shapes into one in which every value has a spec, with the collectives between layouts.
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
  const mesh::Topology& target;  // the hardware whose figures price the choices
  const std::vector<config::AxisRule>& rules;
  bool explicit_mode = false;    // operands must agree on their axes already, except in the update phase
};

// One way to run an op: the specs of its operands and results, and the seconds that the op and the resharding around it take.
struct Answer {
  std::vector<sharding::Spec> operands;
  std::vector<sharding::Spec> results;
  double seconds = 0;
};

// "[fsdp, -, -], [-, -] -> [fsdp, -, -]"
std::string to_string(const Answer& answer, const mesh::Mesh& mesh);

// The answer that was chosen for an op, and the next best one.
struct Choice {
  std::string path;
  graph::Op op = graph::Op::einsum;
  std::string equation;  // einsum only
  graph::Phase phase = graph::Phase::forward;
  Answer chosen;
  Answer runner_up;
};

struct Partitioned {
  graph::Graph graph;
  graph::Graph expanded;        // the graph after the expand pass (expand.h), from which `graph` was made
  std::vector<Choice> choices;  // one for each op that had a choice, in graph order, those in a body at the place of its node
};

// Before: values have global shapes and no specs; constraints ask for layouts. After: every value has a spec, `reshard` nodes (one
// collective or slice each) stand wherever a value is read in a layout other than its own, and there are no constraints left.
// `roots`: specs of the inputs and parameters, in the graph's order. `results`: specs that the results must have, or nothing if any
// layout will do.
// Nodes of the update phase are placed freely: an einsum may be sharded over axes that none of its operands is sharded over, and
// values computed from its result stay in that layout until another one is asked for. A constraint in the update phase takes effect
// at once.
Partitioned partition(const graph::Graph& graph, const std::vector<sharding::Spec>& roots,
                      const std::vector<std::optional<sharding::Spec>>& results, const PartitionRequest& request);

}  // namespace moesh::partition
