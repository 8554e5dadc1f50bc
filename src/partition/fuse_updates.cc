#include "partition/fuse_updates.h"

#include <algorithm>
#include <map>

#include "base/place.h"
#include "graph/rewrite.h"

namespace moesh::partition {
namespace {

using graph::Graph;
using graph::Node;
using graph::Op;
using graph::ValueId;

std::int64_t uses_of(const Graph& graph, ValueId id) {
  std::int64_t uses = std::count(graph.results.begin(), graph.results.end(), id);
  for (const Node& node : graph.nodes) uses += std::count(node.operands.begin(), node.operands.end(), id);
  return uses;
}

// The update whose parameter this is, unless it already gives the squares.
Node* update_of(Graph& graph, ValueId parameter) {
  Node& producer = graph.nodes[at(graph.value(parameter).producer)];
  const bool fits = producer.op == Op::adam_update && producer.results.size() == 3 && producer.results[0] == parameter;
  return fits ? &producer : nullptr;
}

// The update takes the place of the squares' node as their producer.
bool give_squares(Graph& graph, Node& squares) {
  Node* const update = update_of(graph, squares.operands[0]);
  if (update == nullptr) return false;
  update->results.push_back(squares.results[0]);
  graph.values[at(squares.results[0])].producer = graph.value(squares.operands[0]).producer;
  return true;
}

bool is_alike(const graph::Value& a, const graph::Value& b) { return a.shape == b.shape && a.dtype == b.dtype && a.spec == b.spec; }

// Either side of the sum.
void add_to_rows(Graph& graph, Node& sum) {
  const auto* of = std::get_if<graph::BinaryOf>(&sum.attributes);
  if (of == nullptr || of->function != graph::Binary::add) return;
  for (const std::size_t side : {0, 1}) {
    const ValueId gradient = sum.operands[side], table = sum.operands[1 - side];
    const Node& embedding = graph.node(graph.value(gradient).producer);
    if (embedding.op != Op::embed_grad || uses_of(graph, gradient) != 1 || !is_alike(graph.value(table), graph.value(gradient))) continue;
    if (!is_alike(graph.value(table), graph.value(sum.results[0]))) continue;
    sum = {Op::embed_add, embedding.path, "", {table, embedding.operands[0], embedding.operands[1]}, sum.results, {}, sum.phase};
    return;
  }
}

}  // namespace

Graph with_updates_fused(Graph graph) {
  std::vector<bool> is_given(graph.nodes.size());
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    Node& node = graph.nodes[i];
    if (node.op == Op::binary) add_to_rows(graph, node);
    if (node.op == Op::sum_squares) is_given[i] = give_squares(graph, node);
  }
  std::vector<Node> kept;
  std::vector<graph::NodeId> place(graph.nodes.size());
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    place[i] = static_cast<graph::NodeId>(kept.size());
    if (!is_given[i]) kept.push_back(std::move(graph.nodes[i]));
  }
  graph.nodes = std::move(kept);
  for (graph::Value& value : graph.values) {
    if (value.producer >= 0) value.producer = place[at(value.producer)];
  }
  return graph::without_dead_nodes(std::move(graph));
}

}  // namespace moesh::partition
