#include "partition/fold_casts.h"

#include <algorithm>
#include <map>
#include <vector>

#include "base/place.h"
#include "graph/facts.h"
#include "graph/rewrite.h"

namespace moesh::partition {
namespace {

using graph::Graph;
using graph::Node;
using graph::Op;
using graph::ValueId;

// Changes a bfloat16 value with one use to float32 if an op that accumulates in float32 makes it, or a region whose body makes it so.
// Returns whether it did. `uses`: how many times each value of the graph is used.
bool makes_wide(Graph& graph, const std::vector<std::int64_t>& uses, ValueId id) {
  graph::Value& value = graph.values[at(id)];
  Node& producer = graph.nodes[at(value.producer)];
  if (value.dtype != DType::bfloat16 || uses[at(id)] != 1) return false;
  if (auto* region = std::get_if<graph::RegionOf>(&producer.attributes)) {
    const auto place = std::find(producer.results.begin(), producer.results.end(), id) - producer.results.begin();
    Graph body = *region->body;
    if (!makes_wide(body, graph::use_counts(body), body.results[at(place)])) return false;
    region->body = std::make_shared<const Graph>(std::move(body));
  } else if (graph::summed_wide(producer) != id) {
    return false;
  }
  value.dtype = DType::float32;
  return true;
}

// Lets an op that rounds its table as it reads it take the table from before a cast.
void read_table_before_cast(const Graph& graph, std::vector<std::int64_t>& uses, Node& node) {
  const bool is_loss = node.op == Op::vocab_loss || node.op == Op::vocab_logs || node.op == Op::vocab_loss_grad;
  if (node.op != Op::embed && !is_loss) return;
  ValueId& table = node.operands[node.op == Op::embed ? 0 : 1];
  const Node& cast = graph.producer_of(table);
  if (cast.op != Op::cast) return;
  const DType before = graph.value(cast.operands[0]).dtype, after = graph.value(table).dtype;
  const bool is_rounded = node.op == Op::embed ? after == graph.value(node.results[0]).dtype
                                               : before == DType::float32 && after == DType::bfloat16;
  if (!is_rounded) return;
  --uses[at(table)];
  table = cast.operands[0];
  ++uses[at(table)];
}

}  // namespace

Graph with_casts_folded(Graph graph) {
  std::map<ValueId, ValueId> stand_ins;
  std::vector<std::int64_t> uses = graph::use_counts(graph);
  for (Node& node : graph.nodes) {
    if (auto* repeat = std::get_if<graph::RepeatOf>(&node.attributes)) {
      Graph body = with_casts_folded(*repeat->body);
      if (body.nodes.size() == repeat->body->nodes.size()) continue;
      graph::replace_body(*repeat, std::move(body));
    }
    read_table_before_cast(graph, uses, node);
    const bool widens = node.op == Op::cast && graph.value(node.results[0]).dtype == DType::float32;
    if (widens && makes_wide(graph, uses, node.operands[0])) stand_ins[node.results[0]] = node.operands[0];
  }
  return graph::without_dead_nodes(graph::with_operands_replaced(std::move(graph), stand_ins));
}

}  // namespace moesh::partition
