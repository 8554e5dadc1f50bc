#include "partition/collectives.h"

#include "partition/price.h"

namespace moesh::partition {
namespace {

using graph::Graph;
using graph::Node;

void collect(const Graph& graph, const mesh::Mesh& mesh, std::int64_t runs, std::vector<Collective>& all) {
  for (const Node& node : graph.nodes) {
    if (const auto* repeat = std::get_if<graph::RepeatOf>(&node.attributes)) collect(*repeat->body, mesh, runs * repeat->count(), all);
    const auto* of = std::get_if<graph::ReshardOf>(&node.attributes);
    if (of == nullptr || of->kind == graph::ReshardOf::Kind::slice) continue;
    const graph::Value& from = graph.value(node.operands[0]);
    Collective made{node.path, of->kind, of->axes, from.shape, sharding::shards(of->axes, mesh), runs, 0, 0};
    made.operand_bytes = operand_bytes(from.shape, from.dtype, from.spec, mesh);
    made.wire_bytes = wire_bytes(of->kind, static_cast<double>(made.operand_bytes), made.group);
    all.push_back(std::move(made));
  }
}

}  // namespace

std::vector<Collective> collectives_of(const Graph& graph, const mesh::Mesh& mesh) {
  std::vector<Collective> all;
  collect(graph, mesh, 1, all);
  return all;
}

}  // namespace moesh::partition
