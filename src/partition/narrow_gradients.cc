#include "partition/narrow_gradients.h"

#include <algorithm>
#include <map>

#include "base/place.h"
#include "graph/rewrite.h"

namespace moesh::partition {
namespace {

using graph::Graph;
using graph::Node;
using graph::NodeId;
using graph::Op;
using graph::ValueId;

bool widens(const Graph& graph, const Node& node) {
  return node.op == Op::cast && graph.value(node.operands[0]).dtype == DType::bfloat16 &&
         graph.value(node.results[0]).dtype == DType::float32;
}

// Whether only ops read the value that take it in bfloat16 as well.
bool may_be_narrow(const Graph& graph, ValueId id, const std::vector<NodeId>& users) {
  return !users.empty() && std::all_of(users.begin(), users.end(), [&](NodeId user) {
    if (user == static_cast<NodeId>(graph.nodes.size())) return false;  // a result of the graph
    const Node& node = graph.node(user);
    if (node.op == Op::sum_squares) return true;
    return graph::applied_gradient(node) == id && std::count(node.operands.begin(), node.operands.end(), id) == 1;
  });
}

// Gives the stacked results of a repeat's only iteration the type that they had before a cast, where `may_be` allows it.
template <typename MayBe>
void narrow_stacks(Graph& graph, Node& node, const MayBe& may_be) {
  auto& repeat = std::get<graph::RepeatOf>(node.attributes);
  if (repeat.count() != 1) return;
  Graph body = *repeat.body;
  bool is_changed = false;
  for (std::size_t i = static_cast<std::size_t>(repeat.carried); i < node.results.size(); ++i) {
    const Node& last = body.producer_of(body.results[i]);
    if (!widens(body, last) || !may_be(node.results[i])) continue;
    body.results[i] = last.operands[0];
    graph.values[at(node.results[i])].dtype = DType::bfloat16;
    is_changed = true;
  }
  if (is_changed) graph::replace_body(repeat, graph::without_dead_nodes(std::move(body)));
}

}  // namespace

Graph with_narrow_gradients(Graph graph) {
  const std::vector<std::vector<NodeId>> users = graph::users_of(graph);
  const auto may_be = [&](ValueId id) { return may_be_narrow(graph, id, users[at(id)]); };
  std::map<ValueId, ValueId> stand_ins;
  for (Node& node : graph.nodes) {
    if (node.op == Op::repeat) narrow_stacks(graph, node, may_be);
    if (widens(graph, node) && may_be(node.results[0])) stand_ins[node.results[0]] = node.operands[0];
  }
  return graph::without_dead_nodes(graph::with_operands_replaced(std::move(graph), stand_ins));
}

}  // namespace moesh::partition
