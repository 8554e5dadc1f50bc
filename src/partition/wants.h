// Wants: for each value, the layout that its consumers ask for. They are propagated backwards from constraints through ops that keep
// their dims.
#pragma once

#include <optional>
#include <vector>

#include "graph/factors.h"
#include "graph/graph.h"
#include "partition/partition.h"

namespace moesh::partition {

using Want = std::optional<sharding::Spec>;

// The want of each value. `results`: the layouts that are asked of the graph's results.
std::vector<Want> find_wants(const graph::Graph& graph, const std::vector<Want>& results, const PartitionRequest& request);

// The layout of an operand with which an op makes its result in layout `wanted`: dims that the result lacks are whole. It may be a partial
// sum only if that makes the result one.
sharding::Spec passed_on(const graph::OpFactors& factors, const sharding::Spec& wanted, std::size_t operand);

// Whether a node takes the layout that is cheapest for itself, whatever its consumers want: a node of the update phase.
inline bool is_free(const graph::Node& node) { return node.phase == graph::Phase::update; }

// A constraint's spec, without axes of size 1. If the constraint is unreduced, the spec is partial over all axes over which the value may
// stay a partial sum.
sharding::Spec spec_of(const graph::Graph& graph, const graph::Node& constraint, const PartitionRequest& request);

// The spec, partial over no other axes than these.
sharding::Spec with_partial_within(sharding::Spec spec, const sharding::AxisList& axes);

// The layouts of the values that a repeat carries from one iteration to the next, if the body asks for any.
std::vector<Want> carried_wants(const graph::Node& repeat, const PartitionRequest& request);

// The spec without, or with, `count` stacked dims at `position`.
sharding::Spec without_dims(const sharding::Spec& spec, int position, std::size_t count);
sharding::Spec with_dims(const sharding::Spec& spec, int position, std::size_t count);

}  // namespace moesh::partition
