// Copies of graphs: into another graph, or without what is not needed.
#pragma once

#include <map>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "graph/builder.h"

namespace moesh::graph {

// Adds the nodes of `graph` to the builder's graph. `given` maps values of `graph` to tensors that replace them; it must hold all inputs.
// Returns the tensor of every value.
std::vector<Tensor> inline_graph(Builder& builder, const Graph& graph, const std::map<ValueId, Tensor>& given);

// The shapes and types of a node's results.
std::vector<std::pair<Shape, DType>> results_of(const Graph& graph, const Node& node);

// Adds a node like `node` of another graph, with its path, phase and tag, on operands of the builder's graph.
std::vector<Tensor> copy_node(Builder& builder, const Graph& graph, const Node& node, const std::vector<Tensor>& operands,
                              Attributes attributes);

// The inputs of a graph, in order.
std::vector<ValueId> inputs_of(const Graph& graph);

// For each value, how many times nodes and results use it.
std::vector<std::int64_t> use_counts(const Graph& graph);

// The indices of the results that have a name, by name, as long as the graph lives.
std::unordered_map<std::string_view, std::size_t> named_results(const Graph& graph);

// The gradient by which the node updates a parameter; -1 for other nodes.
ValueId applied_gradient(const Node& node);

// For each value, the nodes that use it, in order, with one entry per use. A use as a result counts as a use by a node after all others.
std::vector<std::vector<NodeId>> users_of(const Graph& graph);

// For each node, whether the results need it.
std::vector<bool> needed_nodes(const Graph& graph);

// The graph with each use of a value replaced by a use of its stand-in.
Graph with_operands_replaced(Graph graph, const std::map<ValueId, ValueId>& stand_ins);

// Adds a value to the graph, whose producer the caller sees to.
ValueId add_value(Graph& graph, Value value);

// Sets the producer of every value again, for a graph whose nodes have moved.
void find_producers(Graph& graph);

// Gives a repeat or a region another body and clears its list of saved values, which names values of the old body for the backward pass.
// Only for graphs that have their backward pass.
void replace_body(RepeatOf& repeat, Graph body);
void replace_body(RegionOf& region, Graph body);

// The value stacked over iterations, whose dims come first.
Value stacked(Value value, const std::vector<std::int64_t>& sizes);

// Has a loop hand on one more value of its body, stacked at 0. Returns the stack. `body` is to become the loop's, here and below.
ValueId add_stack(Graph& graph, Node& loop, Graph& body, ValueId value);

// Gives the body of a loop one more input, the slices of a stack at 0, like `slice`. Inputs come before all other nodes then.
ValueId add_slice(Node& loop, Graph& body, ValueId stack, Value slice, const std::string& path, Phase phase);

// For a graph with its backward pass that runs on one device: every value that a constraint lays out is replaced by the constraint's
// operand.
Graph without_constraints(const Graph& graph);

// The graph with the nodes of each block in its place. Only for graphs that have their backward pass, which recomputes a block's values
// by itself.
Graph with_blocks_inlined(const Graph& graph);

// The graph with the nodes of each loop of one iteration in its place, but for loops in bodies of others. Only for graphs that have their
// backward pass.
Graph with_single_loops_inlined(const Graph& graph);

// The graph without nodes whose results nothing needs. Inputs and parameters stay.
Graph without_dead_nodes(Graph graph);

// The same, and without operands and results of repeats and regions that nothing reads, such as stacks of saved values that the backward
// pass turned out not to need. Only for graphs that have their backward pass, as replace_body.
Graph without_dead_results(Graph graph);

// The graph with the nodes before number `count` moved to just before the first later node that needs them, so that their results are held
// no longer than necessary. Roots stay first.
Graph with_nodes_when_needed(const Graph& graph, std::size_t count);

}  // namespace moesh::graph
