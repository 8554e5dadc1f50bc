#include "plan/overwrite.h"

#include <algorithm>
#include <numeric>

#include "graph/facts.h"

namespace moesh::plan {
namespace {

using graph::Graph;
using graph::Node;
using graph::NodeId;
using graph::Op;
using graph::ValueId;

// Whether the operand and the result of a repeat may share memory: they are the same carried value, or stacks of which an iteration
// reads and writes the same slice.
bool may_share(const graph::RepeatOf& of, std::size_t operand, std::size_t result) {
  const auto carried = static_cast<std::size_t>(of.carried), shared_end = carried + static_cast<std::size_t>(of.shared);
  if (result < carried || operand < carried) return operand == result;
  return operand >= shared_end && of.slices[operand - shared_end] == of.stacks[result - carried];
}

bool may_overwrite_operand(const Graph& graph, const Node& node, std::size_t operand, std::size_t result) {
  if (node.op == Op::region) return true;
  if (const auto* of = std::get_if<graph::RepeatOf>(&node.attributes)) return may_share(*of, operand, result);
  return may_lie_in(node.op, operand, result) && is_alike(graph.value(node.operands[operand]), graph.value(node.results[result]));
}

}  // namespace

bool may_lie_in(Op op, std::size_t operand, std::size_t result) {
  const graph::OpFacts& facts = graph::facts_of(op);
  return facts.added_to == static_cast<int>(operand) || (facts.lies_in != nullptr && facts.lies_in(operand, result));
}

Aliases::Aliases(const Graph& graph) : first_(graph.values.size()), last_use_(graph.values.size(), -1) {
  std::iota(first_.begin(), first_.end(), 0);
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    if (graph::is_alias(node)) first_[static_cast<std::size_t>(node.results[0])] = first(node.operands[0]);
    for (const ValueId id : node.operands) last_use_[static_cast<std::size_t>(first(id))] = static_cast<NodeId>(i);
  }
  for (const ValueId id : graph.results) last_use_[static_cast<std::size_t>(first(id))] = static_cast<NodeId>(graph.nodes.size());
}

bool may_overwrite(const Graph& graph, const Aliases& aliases, ValueId old, ValueId made) {
  const NodeId producer = graph.value(made).producer;
  if (aliases.last_use(old) != producer) return aliases.last_use(old) < producer;
  const Node& node = graph.node(producer);
  const auto result = static_cast<std::size_t>(std::find(node.results.begin(), node.results.end(), made) - node.results.begin());
  for (std::size_t i = 0; i < node.operands.size(); ++i) {
    if (aliases.first(node.operands[i]) == aliases.first(old) && !may_overwrite_operand(graph, node, i, result)) return false;
  }
  return true;
}

}  // namespace moesh::plan
