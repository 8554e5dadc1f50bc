#include "partition/collectives.h"

#include <algorithm>
#include <cmath>

#include "partition/price.h"

namespace moesh::partition {
namespace {

using graph::Graph;
using graph::Node;
using graph::Op;
using Kind = graph::ReshardOf::Kind;

double bytes_of(const graph::Value& value) { return static_cast<double>(elements(value.shape) * size_of(value.dtype)); }

// Rows that a device sends back, those of a token as one: of all tokens of the group, so many have a choice here.
double returned_bytes(const graph::Value& result, const graph::GroupOf& group) {
  const auto devices = static_cast<double>(group.members);
  return bytes_of(result) * devices * (1 - std::pow(1 - 1 / devices, static_cast<double>(group.choices)));
}

// Collectives of a region's body, on the shapes of one device. Rows are counted as a router sends them that favours no expert.
void collect_in_region(const Graph& body, std::int64_t runs, std::vector<Collective>& all) {
  for (const Node& node : body.nodes) {
    const auto* of = std::get_if<graph::GroupOf>(&node.attributes);
    if (of == nullptr || of->members == 1) continue;
    const graph::Value& from = body.value(node.operands.empty() ? node.results[0] : node.operands[0]);
    const graph::Value& to = body.value(node.results[0]);
    const auto add = [&](Kind kind, double bytes) {
      all.push_back({node.path, kind, of->axes, from.shape, of->members, runs, static_cast<std::int64_t>(bytes),
                     wire_bytes(kind, bytes, of->members), true});
    };
    switch (node.op) {
      case Op::gather:
      case Op::fetch_rows: add(Kind::all_gather, bytes_of(from)); break;
      case Op::return_rows: add(Kind::reduce_scatter, returned_bytes(to, *of)); break;
      case Op::exchange_rows: add(Kind::all_to_all, std::min(bytes_of(from), bytes_of(to))); break;
      case Op::all_sum: add(Kind::all_reduce, bytes_of(from)); break;
      default: break;
    }
  }
}

void collect(const Graph& graph, const mesh::Mesh& mesh, std::int64_t runs, std::vector<Collective>& all) {
  for (const Node& node : graph.nodes) {
    if (const auto* repeat = std::get_if<graph::RepeatOf>(&node.attributes)) collect(*repeat->body, mesh, runs * repeat->count(), all);
    if (node.op == Op::region) collect_in_region(*graph::body_of(node), runs, all);
    const auto* of = std::get_if<graph::ReshardOf>(&node.attributes);
    if (of == nullptr || of->kind == Kind::slice) continue;
    const graph::Value& from = graph.value(node.operands[0]);
    Collective made{node.path, of->kind, of->axes, from.shape, sharding::shards(of->axes, mesh), runs, 0, 0, false};
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

std::vector<Collective> collectives_of_region(const Graph& body) {
  std::vector<Collective> all;
  collect_in_region(body, 1, all);
  return all;
}

}  // namespace moesh::partition
