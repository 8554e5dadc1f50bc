#include "graph/again.h"

#include <algorithm>

#include "base/place.h"
#include "graph/facts.h"
#include "graph/rewrite.h"
#include "graph/work.h"

namespace moesh::graph {
namespace {

// Whether the backward pass reads the node's operands anyway, or reads a smaller operand in its place.
bool is_cheaper_again(const Graph& body, const Node& node) {
  if (node.op == Op::broadcast || node.op == Op::unary) return true;
  if (node.op == Op::cast) return size_of(body.value(node.results[0]).dtype) > size_of(body.value(node.operands[0]).dtype);
  const auto* binary = std::get_if<BinaryOf>(&node.attributes);
  return binary != nullptr && (binary->function == Binary::multiply || binary->function == Binary::divide);
}

}  // namespace

std::vector<bool> made_again(const Graph& body, int carried) {
  std::vector<bool> is_of_inputs(body.nodes.size()), is_again(body.nodes.size());
  const auto are_inputs = [&](const Node& node) {
    return std::all_of(node.operands.begin(), node.operands.end(),
                       [&](ValueId id) { return is_of_inputs[at(body.value(id).producer)]; });
  };
  int inputs = 0;
  for (std::size_t i = 0; i < body.nodes.size(); ++i) {
    const Node& node = body.nodes[i];
    is_of_inputs[i] = node.op == Op::input ? inputs++ >= carried : facts_of(node.op).is_cheap && are_inputs(node);
    is_again[i] = is_of_inputs[i] || is_cheaper_again(body, node);
  }
  return is_again;
}

namespace {

bool is_heavy(const Node& node) { return is_product(node) || body_of(node) != nullptr; }

class CheapAgain {
 public:
  CheapAgain(const Graph& graph, std::size_t end) : graph_(graph), end_(end), made_(graph), copies_(graph.nodes.size(), -1) {
    made_.nodes.clear();
    find_uses();
    find_copied();
  }

  Graph run() {
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      Node node = graph_.nodes[i];
      if (i >= end_) read_copies(node);
      made_.nodes.push_back(std::move(node));
    }
    find_producers(made_);
    return std::move(made_);
  }

 private:
  std::size_t producer(ValueId id) const { return at(graph_.value(id).producer); }

  // Finds the nodes that the backward pass reads, directly or through a constraint, and the nodes that needed products of the forward pass
  // depend on.
  void find_uses() {
    const std::vector<bool> is_needed = needed_nodes(graph_);
    is_read_.resize(end_);
    is_on_way_.resize(end_);
    for (std::size_t i = graph_.nodes.size(); i-- > 0;) {
      if (!is_needed[i]) continue;
      for (const ValueId operand : graph_.nodes[i].operands) {
        const std::size_t from = producer(operand);
        if (from >= end_) continue;
        const bool is_layout = i < end_ && graph_.nodes[i].op == Op::constraint;
        if (i >= end_ || (is_layout && is_read_[i])) is_read_[from] = true;
        if (i < end_ && (is_heavy(graph_.nodes[i]) || is_on_way_[i])) is_on_way_[from] = true;
      }
    }
  }

  void find_copied() {
    is_copied_.resize(end_);
    for (std::size_t i = 0; i < end_; ++i) {
      const Node& node = graph_.nodes[i];
      if (is_root(node) || !is_read_[i] || !is_on_way_[i]) continue;
      is_copied_[i] = node.op == Op::constraint ? is_copied(node.operands[0]) : is_cheaper_again(graph_, node) && are_held(node.operands);
    }
  }

  bool is_copied(ValueId id) const { return is_copied_[producer(id)]; }
  bool are_held(const std::vector<ValueId>& ids) const {
    return std::all_of(ids.begin(), ids.end(), [&](ValueId id) {
      const std::size_t from = producer(id);
      return is_root(graph_.nodes[from]) || is_read_[from] || is_copied_[from];
    });
  }

  void read_copies(Node& node) {
    for (ValueId& operand : node.operands) {
      const std::size_t from = producer_of_original(operand);
      if (from < end_ && is_copied_[from]) operand = copy_of(from);
    }
  }
  std::size_t producer_of_original(ValueId id) const { return at(id) < graph_.values.size() ? producer(id) : graph_.nodes.size(); }

  ValueId copy_of(std::size_t node) {
    if (copies_[node] >= 0) return copies_[node];
    Node copy = graph_.nodes[node];
    read_copies(copy);
    copies_[node] = add_value(made_, graph_.value(copy.results[0]));
    copy.results = {copies_[node]};
    made_.nodes.push_back(std::move(copy));
    return copies_[node];
  }

  const Graph& graph_;
  std::size_t end_;
  Graph made_;
  std::vector<ValueId> copies_;  // the copy's value, by node
  std::vector<bool> is_read_, is_on_way_, is_copied_;
};

}  // namespace

Graph with_cheap_nodes_again(const Graph& graph, std::size_t end) { return CheapAgain(graph, end).run(); }

}  // namespace moesh::graph
