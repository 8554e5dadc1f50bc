#include "partition/fold_slices.h"

#include "graph/rewrite.h"

namespace moesh::partition {
namespace {

using graph::Graph;
using graph::Node;

// Any other value might be held for longer than its slice.
bool is_held_anyway(const Graph& graph, graph::ValueId id) { return graph::is_root(graph.producer_of(id)); }

void read_part_in_place(const Graph& graph, Node& node) {
  auto* of = std::get_if<graph::EinsumOf>(&node.attributes);
  if (of == nullptr || of->part_size > 0) return;
  const Node& producer = graph.producer_of(node.operands[1]);
  const auto* slice = std::get_if<graph::SliceOf>(&producer.attributes);
  if (slice == nullptr || !is_held_anyway(graph, producer.operands[0])) return;
  of->part_dim = slice->dim;
  of->part_begin = slice->begin;
  of->part_size = slice->size;
  node.operands[1] = producer.operands[0];
}

}  // namespace

Graph with_slices_folded(Graph graph) {
  for (Node& node : graph.nodes) {
    if (auto* repeat = std::get_if<graph::RepeatOf>(&node.attributes)) {
      Graph body = with_slices_folded(*repeat->body);
      if (body.nodes.size() < repeat->body->nodes.size()) graph::replace_body(*repeat, std::move(body));
    }
    read_part_in_place(graph, node);
  }
  return graph::without_dead_nodes(std::move(graph));
}

}  // namespace moesh::partition
