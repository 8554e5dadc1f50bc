#include "partition/chain.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "base/place.h"
#include "graph/rewrite.h"

namespace moesh::partition {
namespace {

using graph::ChainOf;
using graph::ChainStep;
using graph::Graph;
using graph::Node;
using graph::NodeId;
using graph::Op;
using graph::Value;
using graph::ValueId;

constexpr std::int64_t kFewestElements = 4096;  // of smaller values a pass costs less than what runs a chain
constexpr std::size_t kMostSteps = 8;

bool is_by_element(const Graph& graph, const Node& node) {
  if (node.op == Op::chain) return true;
  if (node.op != Op::unary && node.op != Op::unary_grad && node.op != Op::binary && node.op != Op::cast) return false;
  const auto is_number = [&](ValueId id) { return is_floating(graph.value(id).dtype); };
  return is_number(node.results[0]) && std::all_of(node.operands.begin(), node.operands.end(), is_number);
}

// A node as a chain, of one step unless it is one already.
std::vector<ChainStep> steps_of(const Graph& graph, const Node& node) {
  if (const auto* chain = std::get_if<ChainOf>(&node.attributes)) return chain->steps;
  ChainStep step;
  step.dtype = graph.value(node.results[0]).dtype;
  for (std::size_t i = 0; i < node.operands.size(); ++i) step.operands.push_back(static_cast<int>(i));
  if (const auto* unary = std::get_if<graph::UnaryOf>(&node.attributes)) step.unary = *unary;
  if (const auto* binary = std::get_if<graph::BinaryOf>(&node.attributes)) step.binary = *binary;
  step.kind = node.op == Op::unary        ? ChainStep::Kind::unary
              : node.op == Op::unary_grad ? ChainStep::Kind::unary_grad
              : node.op == Op::binary     ? ChainStep::Kind::binary
                                          : ChainStep::Kind::cast;
  return {step};
}

// Operands and steps of two nodes, of which the second takes at `place` what the first makes.
struct Joined {
  std::vector<ValueId> operands;
  std::vector<ChainStep> steps;
};
Joined join(const Graph& graph, const Node& first, const Node& second, std::size_t place) {
  Joined made{first.operands, steps_of(graph, first)};
  const std::vector<ChainStep> last = steps_of(graph, second);
  std::vector<int> moved;  // where the second's operands and steps are
  for (std::size_t i = 0; i < second.operands.size(); ++i) {
    if (i == place) {
      moved.push_back(-1);
      continue;
    }
    const auto known = std::find(made.operands.begin(), made.operands.end(), second.operands[i]);
    moved.push_back(static_cast<int>(known - made.operands.begin()));
    if (known == made.operands.end()) made.operands.push_back(second.operands[i]);
  }
  // Steps stand behind all operands.
  const auto added = static_cast<int>(made.operands.size() - first.operands.size());
  for (ChainStep& step : made.steps) {
    for (int& operand : step.operands) operand += operand >= static_cast<int>(first.operands.size()) ? added : 0;
  }
  moved[place] = static_cast<int>(made.operands.size() + made.steps.size()) - 1;
  for (std::size_t i = 0; i < last.size(); ++i) moved.push_back(static_cast<int>(made.operands.size() + made.steps.size() + i));
  for (ChainStep step : last) {
    for (int& operand : step.operands) operand = moved[at(operand)];
    made.steps.push_back(std::move(step));
  }
  return made;
}

class Chaining {
 public:
  explicit Chaining(Graph graph)
      : graph_(std::move(graph)),
        uses_(graph_.values.size()),
        uses_by_element_(graph_.values.size()),
        last_use_(graph_.values.size()),
        is_dead_(graph_.nodes.size()) {}

  Graph run() {
    for (const ValueId id : graph_.results) see(id, static_cast<NodeId>(graph_.nodes.size()));
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      const bool by_element = is_by_element(graph_, graph_.nodes[i]);
      for (const ValueId id : graph_.nodes[i].operands) {
        see(id, static_cast<NodeId>(i));
        uses_by_element_[at(id)] += by_element ? 1 : 0;
      }
    }
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      Node& node = graph_.nodes[i];
      if (auto* repeat = std::get_if<graph::RepeatOf>(&node.attributes)) graph::replace_body(*repeat, with_chains(*repeat->body));
      if (auto* region = std::get_if<graph::RegionOf>(&node.attributes)) {
        region->body = std::make_shared<const Graph>(with_chains(*region->body));
        region->saved.clear();
      }
      if (is_by_element(graph_, node)) take_in(node, static_cast<NodeId>(i));
    }
    return graph::without_dead_nodes(std::move(graph_));
  }

 private:
  void see(ValueId id, NodeId user) {
    ++uses_[at(id)];
    last_use_[at(id)] = std::max(last_use_[at(id)], user);
  }

  // What makes the node's operands becomes part of it.
  void take_in(Node& node, NodeId place) {
    for (std::size_t i = 0; i < node.operands.size();) {
      const Value& value = graph_.value(node.operands[i]);
      const Node& before = graph_.node(value.producer);
      if (!may_join(before, node, i, place)) {
        ++i;
        continue;
      }
      const bool is_last_use = --uses_[at(node.operands[i])] == 0;
      is_dead_[at(value.producer)] = is_last_use;
      Joined joined = join(graph_, before, node, i);
      for (const ValueId id : before.operands) {
        uses_[at(id)] += is_last_use ? 0 : 1;
        last_use_[at(id)] = std::max(last_use_[at(id)], place);
      }
      node.op = Op::chain;
      node.operands = std::move(joined.operands);
      node.attributes = ChainOf{std::move(joined.steps)};
      i = 0;
    }
  }

  bool may_join(const Node& before, const Node& node, std::size_t operand, NodeId place) const {
    const ValueId id = node.operands[operand];
    const Value &value = graph_.value(id), &made = graph_.value(node.results[0]);
    if (!is_by_element(graph_, before) || elements(value.shape) < kFewestElements) return false;
    // What is made of one value may be made twice, if nobody then needs it.
    const bool is_made_twice = uses_[at(id)] == 2 && uses_by_element_[at(id)] == 2 && before.operands.size() == 1;
    if (uses_[at(id)] != 1 && !is_made_twice) return false;
    if (value.shape != made.shape || value.spec != made.spec) return false;
    if (steps_of(graph_, before).size() + steps_of(graph_, node).size() > kMostSteps) return false;
    return holds_no_more(before, value, place);
  }

  // Whether what the step before reads is not held for longer in place of less. Ops on each element in between, which take little
  // memory themselves, do not count.
  bool holds_no_more(const Node& before, const Value& made, NodeId place) const {
    std::int64_t held = 0;
    for (const ValueId id : before.operands) held += last_use_[at(id)] < place ? bytes_of(graph_.value(id)) : 0;
    if (held <= bytes_of(made)) return true;
    for (NodeId between = made.producer + 1; between < place; ++between) {
      if (!is_dead_[at(between)] && !is_by_element(graph_, graph_.node(between))) return false;
    }
    return true;
  }

  Graph graph_;
  std::vector<std::int64_t> uses_;
  std::vector<std::int64_t> uses_by_element_;  // of those, by nodes that may become chains
  std::vector<NodeId> last_use_;
  std::vector<bool> is_dead_;  // nodes that have become parts of all that read them
};

}  // namespace

Graph with_chains(Graph graph) { return Chaining(std::move(graph)).run(); }

}  // namespace moesh::partition
