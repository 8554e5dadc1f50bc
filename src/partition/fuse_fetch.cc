#include "partition/fuse_fetch.h"

#include "base/place.h"
#include "graph/rewrite.h"

namespace moesh::partition {

using graph::Graph;
using graph::Node;
using graph::Op;

Graph with_fetches_fused(Graph graph) {
  const std::vector<std::vector<graph::NodeId>> users = graph::users_of(graph);
  for (Node& node : graph.nodes) {
    if (auto* repeat = std::get_if<graph::RepeatOf>(&node.attributes)) graph::replace_body(*repeat, with_fetches_fused(*repeat->body));
    if (auto* region = std::get_if<graph::RegionOf>(&node.attributes)) graph::replace_body(*region, with_fetches_fused(*region->body));
    if (node.op != Op::weighted_rows_grad) continue;
    const graph::ValueId rows = node.operands[2];
    const Node& fetch = graph.producer_of(rows);
    if (fetch.op != Op::fetch_rows || users[at(rows)].size() != 1) continue;
    node.op = Op::fetched_rows_grad;
    node.attributes = fetch.attributes;
    node.operands = {node.operands[0], node.operands[1], fetch.operands[0], fetch.operands[1], fetch.operands[2]};
  }
  return graph::without_dead_nodes(std::move(graph));
}

}  // namespace moesh::partition
