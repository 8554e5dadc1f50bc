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

constexpr std::int64_t kFewestElements = 4096;  // for smaller values a pass over memory costs less than the overhead of a chain
constexpr std::size_t kMostSteps = 8;

bool is_by_element(const Graph& graph, const Node& node) {
  if (node.results.size() != 1) return false;
  if (node.op == Op::chain) return true;
  if (node.op != Op::unary && node.op != Op::unary_grad && node.op != Op::binary && node.op != Op::cast) return false;
  const auto is_number = [&](ValueId id) { return is_floating(graph.value(id).dtype); };
  return is_number(node.results[0]) && std::all_of(node.operands.begin(), node.operands.end(), is_number);
}

// The steps of a chain, or of another elementwise node as a chain of one step.
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

// The operands and steps of a chain made of two nodes; operand `place` of the second is the result of the first.
struct Joined {
  std::vector<ValueId> operands;
  std::vector<ChainStep> steps;
};
Joined one_after_the_other(const Graph& graph, const Node& first, const Node& second, std::size_t place) {
  Joined made{first.operands, steps_of(graph, first)};
  const std::vector<ChainStep> last = steps_of(graph, second);
  std::vector<int> moved;  // the number in the chain of each of the second node's operands and steps
  for (std::size_t i = 0; i < second.operands.size(); ++i) {
    if (i == place) {
      moved.push_back(-1);
      continue;
    }
    const auto known = std::find(made.operands.begin(), made.operands.end(), second.operands[i]);
    moved.push_back(static_cast<int>(known - made.operands.begin()));
    if (known == made.operands.end()) made.operands.push_back(second.operands[i]);
  }
  // Steps are numbered after all operands, so added operands shift them.
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
  explicit Chaining(Graph graph) : graph_(std::move(graph)), is_dead_(graph_.nodes.size()) {
    for (const std::vector<NodeId>& users : graph::users_of(graph_)) {
      uses_.push_back(std::ssize(users));
      uses_by_element_.push_back(std::count_if(users.begin(), users.end(), [&](NodeId user) {
        return at(user) < graph_.nodes.size() && is_by_element(graph_, graph_.node(user));
      }));
      last_use_.push_back(users.empty() ? 0 : users.back());
    }
  }

  Graph run() {
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      Node& node = graph_.nodes[i];
      if (is_by_element(graph_, node)) take_in(node, static_cast<NodeId>(i));
    }
    return graph::without_dead_nodes(std::move(graph_));
  }

 private:
  // Fuses the producers of the node's operands into it.
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
      Joined joined = one_after_the_other(graph_, before, node, i);
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
    // A result that is made from one value may be made twice, once in each of two readers, so that it need not be stored.
    const bool is_made_twice = uses_[at(id)] == 2 && uses_by_element_[at(id)] == 2 && before.operands.size() == 1;
    if (uses_[at(id)] != 1 && !is_made_twice) return false;
    if (value.shape != made.shape || value.spec != made.spec) return false;
    if (steps_of(graph_, before).size() + steps_of(graph_, node).size() > kMostSteps) return false;
    return holds_no_more(before, value, place);
  }

  // Whether fusing holds no more memory: the operands of `before` that would live longer take no more than its result, which is no
  // longer stored, or only elementwise ops, which take little memory themselves, run in between.
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
  std::vector<std::int64_t> uses_by_element_;  // uses by nodes that may become chains
  std::vector<NodeId> last_use_;
  std::vector<bool> is_dead_;  // nodes that were fused into all of their readers
};

Graph with_chains_in(Graph graph, const std::vector<bool>& is_given_away);

// Merges chains and other elementwise ops that share an operand into one chain with several results, which reads the operand once. It
// takes the place of the first of them.
class Joining {
 public:
  // `is_given_away`: for each input, whether nobody reads it after this graph, so that its memory is free once it is read.
  Joining(Graph graph, const std::vector<bool>& is_given_away)
      : graph_(std::move(graph)), users_(graph::users_of(graph_)), is_kept_(graph_.values.size()) {
    const std::vector<ValueId> inputs = graph::inputs_of(graph_);
    for (std::size_t i = 0; i < inputs.size(); ++i) is_kept_[at(inputs[i])] = i >= is_given_away.size() || !is_given_away[i];
    for (const Node& node : graph_.nodes) {
      if (node.op == Op::parameter) is_kept_[at(node.results[0])] = true;
    }
  }

  Graph run() {
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) go_into(static_cast<NodeId>(i));
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      for (std::vector<NodeId> group = beside(static_cast<NodeId>(i)); group.size() > 1; group.pop_back()) {
        Made made = joined(group);
        if (made.steps.size() > kMostSteps || !holds_no_more(group, made.operands)) continue;
        join(group, std::move(made));
        break;
      }
    }
    std::erase_if(graph_.nodes, [](const Node& node) { return node.results.empty(); });
    graph::find_producers(graph_);
    return graph::without_dead_nodes(std::move(graph_));
  }

 private:
  void go_into(NodeId id) {
    Node& node = graph_.nodes[at(id)];
    std::vector<bool> is_given_away;
    for (const ValueId operand : node.operands) is_given_away.push_back(!is_kept_[at(operand)] && last_use(operand) == id);
    if (auto* repeat = std::get_if<graph::RepeatOf>(&node.attributes)) {
      std::fill_n(is_given_away.begin(), repeat->carried + repeat->shared, false);  // later iterations read these
      graph::replace_body(*repeat, with_chains_in(*repeat->body, is_given_away));
    } else if (auto* region = std::get_if<graph::RegionOf>(&node.attributes)) {
      graph::replace_body(*region, with_chains_in(*region->body, is_given_away));
    }
  }

  NodeId last_use(ValueId id) const { return users_[at(id)].empty() ? -1 : users_[at(id)].back(); }

  bool may_be_joined(NodeId id) const {
    if (at(id) == graph_.nodes.size()) return false;  // a use as a result of the graph
    const Node& node = graph_.node(id);
    return node.results.size() == 1 && is_by_element(graph_, node) && elements(graph_.value(node.results[0]).shape) >= kFewestElements;
  }

  // The node, and the later ones that share an operand with it and whose operands all exist where it stands.
  std::vector<NodeId> beside(NodeId first) const {
    if (!may_be_joined(first)) return {};
    const Node& node = graph_.node(first);
    const Value& like = graph_.value(node.results[0]);
    std::vector<NodeId> found;
    for (const ValueId operand : node.operands) {
      for (const NodeId user : users_[at(operand)]) {
        if (user <= first || !may_be_joined(user)) continue;
        const Node& other = graph_.node(user);
        const Value& made = graph_.value(other.results[0]);
        const auto is_there = [&](ValueId id) { return graph_.value(id).producer < first; };
        if (made.shape != like.shape || made.spec != like.spec) continue;
        if (std::all_of(other.operands.begin(), other.operands.end(), is_there)) found.push_back(user);
      }
    }
    std::sort(found.begin(), found.end());
    found.erase(std::unique(found.begin(), found.end()), found.end());
    found.insert(found.begin(), first);
    return found;
  }

  // Whether, at the place of each node of the group, results that are made earlier than before take no more than operands freed earlier.
  bool holds_no_more(const std::vector<NodeId>& group, const std::vector<ValueId>& operands) const {
    for (std::size_t i = 0; i + 1 < group.size(); ++i) {
      std::int64_t more = 0, less = 0;
      for (std::size_t k = i + 1; k < group.size(); ++k) more += bytes_of(graph_.value(graph_.node(group[k]).results[0]));
      for (const ValueId id : operands) less += last_use(id) > group[i] && ends_in(group, id) ? bytes_of(graph_.value(id)) : 0;
      if (more > less) return false;
    }
    return true;
  }
  // Whether from the first of the group on only the group reads the value, which is then free once the merged node has run.
  bool ends_in(const std::vector<NodeId>& group, ValueId id) const {
    const auto is_in = [&](NodeId user) { return std::find(group.begin(), group.end(), user) != group.end(); };
    const std::vector<NodeId>& users = users_[at(id)];
    return !is_kept_[at(id)] && is_in(last_use(id)) &&
           std::all_of(users.begin(), users.end(), [&](NodeId user) { return user < group[0] || is_in(user); });
  }

  struct Made {
    std::vector<ValueId> operands;
    std::vector<ChainStep> steps;
    std::vector<int> results;
  };
  Made joined(const std::vector<NodeId>& group) const {
    Made made;
    for (const NodeId id : group) {
      for (const ValueId operand : graph_.node(id).operands) {
        if (std::find(made.operands.begin(), made.operands.end(), operand) == made.operands.end()) made.operands.push_back(operand);
      }
    }
    for (const NodeId id : group) add(graph_.node(id), made);
    return made;
  }
  // Adds the node's steps, but those that the chain has already.
  void add(const Node& node, Made& made) const {
    std::vector<int> moved;
    for (const ValueId id : node.operands) {
      moved.push_back(static_cast<int>(std::find(made.operands.begin(), made.operands.end(), id) - made.operands.begin()));
    }
    const std::vector<ChainStep> steps = steps_of(graph_, node);
    for (std::size_t i = 0; i < steps.size(); ++i) {
      ChainStep step = steps[i];
      for (int& operand : step.operands) operand = moved[at(operand)];
      const bool is_result = i + 1 == steps.size();
      auto known = is_result ? made.steps.end() : std::find(made.steps.begin(), made.steps.end(), step);
      if (known == made.steps.end()) known = made.steps.insert(known, std::move(step));
      moved.push_back(static_cast<int>(made.operands.size()) + static_cast<int>(known - made.steps.begin()));
    }
    made.results.push_back(moved.back() - static_cast<int>(made.operands.size()));
  }

  void join(const std::vector<NodeId>& group, Made made) {
    Node& first = graph_.nodes[at(group[0])];
    for (std::size_t i = 1; i < group.size(); ++i) {
      Node& other = graph_.nodes[at(group[i])];
      graph_.values[at(other.results[0])].producer = group[0];
      first.results.push_back(other.results[0]);
      first.phase = std::max(first.phase, other.phase);
      other = {};
    }
    for (const ValueId id : made.operands) {
      std::vector<NodeId>& users = users_[at(id)];
      std::erase_if(users, [&](NodeId user) { return std::find(group.begin(), group.end(), user) != group.end(); });
      users.insert(std::lower_bound(users.begin(), users.end(), group[0]), group[0]);
    }
    first.op = Op::chain;
    first.operands = std::move(made.operands);
    first.attributes = ChainOf{std::move(made.steps), std::move(made.results)};
  }

  Graph graph_;
  std::vector<std::vector<NodeId>> users_;
  std::vector<bool> is_kept_;  // by value: whether the caller may still need it, so that its memory is not free after the last use
};

Graph with_chains_in(Graph graph, const std::vector<bool>& is_given_away) {
  return Joining(Chaining(std::move(graph)).run(), is_given_away).run();
}

}  // namespace

Graph with_chains(Graph graph) { return with_chains_in(std::move(graph), {}); }

}  // namespace moesh::partition
