// Where a value is headed: the layout that its consumers, and theirs, ask for. Flows from constraints backwards through ops that
// keep their dims.
#pragma once

#include <optional>
#include <vector>

#include "graph/graph.h"
#include "partition/partition.h"

namespace moesh::partition {

using Want = std::optional<sharding::Spec>;

// One for each value. `results`: what is asked of the graph's results.
std::vector<Want> find_wants(const graph::Graph& graph, const std::vector<Want>& results, const PartitionRequest& request);

// Whether a node lies where that is cheapest for it, whatever is wanted of what follows.
inline bool is_free(const graph::Node& node) { return node.phase == graph::Phase::update; }

// A constraint's spec, without axes of size 1.
sharding::Spec spec_of(const graph::Node& constraint, const PartitionRequest& request);

// How the values lie that a repeat carries from one iteration to the next, where the body asks for something.
std::vector<Want> carried_wants(const graph::Node& repeat, const PartitionRequest& request);

// The spec with a stack's dims taken out, and put in.
sharding::Spec without_dims(const sharding::Spec& spec, int position, std::size_t count);
sharding::Spec with_dims(const sharding::Spec& spec, int position, std::size_t count);

}  // namespace moesh::partition
