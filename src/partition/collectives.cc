#include "partition/collectives.h"

#include <algorithm>

#include "base/chance.h"
#include "cost/collective.h"
#include "graph/facts.h"

namespace moesh::partition {
namespace {

using graph::Graph;
using graph::Node;
using graph::Op;
using Kind = graph::ReshardOf::Kind;

double bytes_in(const graph::Value& value) { return static_cast<double>(graph::bytes_of(value)); }

// The expected number of the group's tokens that have a row on a given device, with a balanced router.
double tokens_with_rows(std::int64_t tokens, const graph::GroupOf& group) {
  return static_cast<double>(tokens * group.members) *
         chance_of_any(static_cast<double>(group.experts_here), static_cast<double>(group.choices), static_cast<double>(group.experts));
}

// The bytes of rows that a device hands in: with a balanced router, and at most.
struct RowBytes {
  double even = 0;
  double bound = 0;
};

RowBytes row_bytes(const Graph& body, const Node& node, const graph::GroupOf& group) {
  const graph::Value& from = body.value(node.operands[0]);
  const graph::Value& to = body.value(node.results[0]);
  if (node.op == Op::exchange_rows) return {std::min(bytes_in(from), bytes_in(to)), bytes_in(from)};
  // The sums of each token are sent with the token's number.
  const auto room = static_cast<double>(from.shape[0]);
  const double each = bytes_in(from) / std::max(1.0, room) + static_cast<double>(size_of(body.value(node.operands[1]).dtype));
  return {std::min(room, tokens_with_rows(to.shape[0], group)) * each, room * each};
}

Collective in_region(const Graph& body, const Node& node) {
  const Kind kind = *graph::collective_of(node);
  const auto& group = std::get<graph::GroupOf>(node.attributes);
  const graph::Value& from = body.value(node.operands[0]);
  Collective made{node.path, kind, group.axes, from.shape, group.members, 1, 0, {}, 0, true};
  double bytes = bytes_in(from);
  if (graph::facts_of(node.op).is_ragged) {
    const RowBytes rows = row_bytes(body, node, group);
    bytes = rows.even;
    made.bound_bytes = static_cast<std::int64_t>(rows.bound);
  }
  made.operand_bytes = static_cast<std::int64_t>(bytes);
  made.wire_bytes = cost::wire_bytes(kind, bytes, group.members);
  return made;
}

Collective of_reshard(const Graph& graph, const Node& node, const mesh::Mesh& mesh) {
  const auto& of = std::get<graph::ReshardOf>(node.attributes);
  const graph::Value& from = graph.value(node.operands[0]);
  Collective made{node.path, of.kind, of.axes, from.shape, sharding::shards(of.axes, mesh), 1, 0, {}, 0, false};
  made.operand_bytes = sharding::shard_bytes(from.shape, from.dtype, from.spec, mesh);
  made.wire_bytes = cost::wire_bytes(of.kind, static_cast<double>(made.operand_bytes), made.group);
  return made;
}

void collect(const Graph& graph, const mesh::Mesh& mesh, std::int64_t runs, std::vector<Collective>& all) {
  for (const Node& node : graph.nodes) {
    if (const auto* repeat = std::get_if<graph::RepeatOf>(&node.attributes)) collect(*repeat->body, mesh, runs * repeat->count(), all);
    if (node.op == Op::region) collect(*graph::body_of(node), mesh, runs, all);
    if (!graph::collective_of(node)) continue;
    all.push_back(collective_of(graph, node, mesh));
    all.back().runs = runs;
  }
}

}  // namespace

Collective collective_of(const Graph& graph, const Node& node, const mesh::Mesh& mesh) {
  return std::holds_alternative<graph::ReshardOf>(node.attributes) ? of_reshard(graph, node, mesh) : in_region(graph, node);
}

std::vector<Collective> collectives_of(const Graph& graph, const mesh::Mesh& mesh) {
  std::vector<Collective> all;
  collect(graph, mesh, 1, all);
  return all;
}

std::vector<Collective> collectives_of_region(const Graph& body) {
  std::vector<Collective> all;
  for (const Node& node : body.nodes) {
    if (graph::collective_of(node)) all.push_back(in_region(body, node));
  }
  return all;
}

}  // namespace moesh::partition
