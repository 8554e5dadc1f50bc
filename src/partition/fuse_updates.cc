#include "partition/fuse_updates.h"

#include <map>
#include <vector>

#include "base/place.h"
#include "graph/rewrite.h"

namespace moesh::partition {
namespace {

using graph::Graph;
using graph::Node;
using graph::Op;
using graph::ValueId;

// Has the update that makes the parameter also return its sum of squares. Returns that value, or -1 if there is no such update.
ValueId squares_by_update(Graph& graph, const Node& squares) {
  const ValueId parameter = squares.operands[0];
  Node& update = graph.nodes[at(graph.value(parameter).producer)];
  if (update.op != Op::adam_update || update.results.size() != 3 || update.results[0] != parameter) return -1;
  graph::Value sum = graph.value(squares.results[0]);
  sum.producer = graph.value(parameter).producer;
  update.results.push_back(graph::add_value(graph, std::move(sum)));
  return update.results.back();
}

// Makes an embed_add of a sum of which either term is the gradient of an embedding.
void add_to_rows(const Graph& graph, const std::vector<std::int64_t>& uses, Node& sum) {
  const auto* of = std::get_if<graph::BinaryOf>(&sum.attributes);
  if (of == nullptr || of->function != graph::Binary::add) return;
  for (const std::size_t side : {0u, 1u}) {
    const ValueId gradient = sum.operands[side], table = sum.operands[1 - side];
    const Node& embedding = graph.node(graph.value(gradient).producer);
    const auto is_like_table = [&](ValueId id) { return is_alike(graph.value(id), graph.value(table)); };
    if (embedding.op != Op::embed_grad || uses[at(gradient)] != 1) continue;
    if (!is_like_table(gradient) || !is_like_table(sum.results[0])) continue;
    sum = {Op::embed_add, embedding.path, "", {table, embedding.operands[0], embedding.operands[1]}, sum.results, {}, sum.phase};
    return;
  }
}

}  // namespace

Graph with_updates_fused(Graph graph) {
  std::map<ValueId, ValueId> stand_ins;
  const std::vector<std::int64_t> uses = graph::use_counts(graph);
  for (Node& node : graph.nodes) {
    if (auto* repeat = std::get_if<graph::RepeatOf>(&node.attributes)) graph::replace_body(*repeat, with_updates_fused(*repeat->body));
    if (node.op == Op::binary) add_to_rows(graph, uses, node);
    const ValueId sum = node.op == Op::sum_squares ? squares_by_update(graph, node) : -1;
    if (sum >= 0) stand_ins[node.results[0]] = sum;
  }
  return graph::without_dead_nodes(graph::with_operands_replaced(std::move(graph), stand_ins));
}

}  // namespace moesh::partition
