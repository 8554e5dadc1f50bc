// Copies of graphs: into another graph, without what is not needed.
#pragma once

#include <map>
#include <vector>

#include "graph/builder.h"

namespace moesh::graph {

// Adds the nodes of `graph` to the builder's. `given` maps values of `graph` to tensors that stand in for them; all inputs
// must be among them. Returns the tensor of every value.
std::vector<Tensor> inline_graph(Builder& builder, const Graph& graph, const std::map<ValueId, Tensor>& given);

// The inputs of a graph, in order.
std::vector<ValueId> inputs_of(const Graph& graph);

// How often nodes and results use a value.
std::int64_t uses_of(const Graph& graph, ValueId id);

// By value, the nodes that use it, in order and as often as each does. A use as a result counts as one by a node behind all others.
std::vector<std::vector<NodeId>> users_of(const Graph& graph);

// By node, whether the results need it.
std::vector<bool> needed_nodes(const Graph& graph);

// Each use of a value replaced by one of what stands in for it.
Graph with_operands_replaced(Graph graph, const std::map<ValueId, ValueId>& stand_ins);

// Of a graph whose nodes have moved: says again which of them makes each value.
void find_producers(Graph& graph);

// Gives a repeat or a region another body. Only once the backward pass is there: it is what a body's values are saved for, by their
// numbers.
void replace_body(RepeatOf& repeat, Graph body);
void replace_body(RegionOf& region, Graph body);

// Of a graph with its backward pass, for one device: values as they are wherever constraints ask for layouts.
Graph without_constraints(const Graph& graph);

// Without nodes whose results nobody needs. Inputs and parameters stay.
Graph without_dead_nodes(Graph graph);

// Nor what a repeat or region gives or is given besides: stacks of saved values among them that the backward pass turned out not to
// read. Only once the backward pass is there, as replace_body.
Graph without_dead_results(Graph graph);

// The nodes before number `count` moved to just before the first of the later ones that needs them, so that what they make is
// held no longer than it has to be. Roots stay in front.
Graph with_nodes_when_needed(const Graph& graph, std::size_t count);

}  // namespace moesh::graph
