#include "partition/doubles.h"

#include <map>
#include <tuple>
#include <utility>

#include "base/place.h"
#include "graph/rewrite.h"

namespace moesh::partition {
namespace {

using graph::Graph;
using graph::Node;
using graph::RepeatOf;
using graph::ValueId;

// Replaces each of the values by the first one with the same key.
template <typename Key>
class Firsts {
 public:
  void add(Key key, ValueId id, std::map<ValueId, ValueId>& stand_ins) {
    const auto [first, is_new] = firsts_.try_emplace(std::move(key), id);
    if (!is_new) stand_ins[id] = first->second;
  }

 private:
  std::map<Key, ValueId> firsts_;
};

void replace_operands(Node& node, const std::map<ValueId, ValueId>& stand_ins) {
  for (ValueId& operand : node.operands) {
    if (const auto found = stand_ins.find(operand); found != stand_ins.end()) operand = found->second;
  }
}

Graph body_without_doubles(const Node& node, const RepeatOf& of) {
  Graph body = without_doubles(*of.body);
  std::map<ValueId, ValueId> stand_ins;
  const std::vector<ValueId> inputs = graph::inputs_of(body);
  const std::size_t first_slice = inputs.size() - of.slices.size();
  Firsts<std::pair<ValueId, int>> taken;  // by the operand, and where its slice is
  for (std::size_t i = at(of.carried); i < inputs.size(); ++i) {
    taken.add({node.operands[i], i < first_slice ? -1 : of.slices[i - first_slice]}, inputs[i], stand_ins);
  }
  Firsts<std::tuple<ValueId, graph::ReshardOf::Kind, sharding::AxisList, int, int>> moved;
  for (Node& inner : body.nodes) {
    replace_operands(inner, stand_ins);
    const auto* reshard = std::get_if<graph::ReshardOf>(&inner.attributes);
    if (reshard == nullptr) continue;
    moved.add({inner.operands[0], reshard->kind, reshard->axes, reshard->from, reshard->to}, inner.results[0], stand_ins);
  }
  return graph::with_operands_replaced(std::move(body), stand_ins);
}

}  // namespace

Graph without_doubles(Graph graph) {
  std::map<ValueId, ValueId> stand_ins;
  for (Node& node : graph.nodes) {
    replace_operands(node, stand_ins);
    auto* of = std::get_if<RepeatOf>(&node.attributes);
    if (of == nullptr) continue;
    graph::replace_body(*of, body_without_doubles(node, *of));
    Firsts<std::pair<ValueId, int>> stacked;  // by the value of the body, and where it is stacked
    const std::size_t carried = at(of->carried);
    for (std::size_t i = carried; i < node.results.size(); ++i) {
      stacked.add({of->body->results[i], of->stacks[i - carried]}, node.results[i], stand_ins);
    }
  }
  return graph::without_dead_results(graph::with_operands_replaced(std::move(graph), stand_ins));
}

}  // namespace moesh::partition
