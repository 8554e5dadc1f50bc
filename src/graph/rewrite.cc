#include "graph/rewrite.h"

#include <algorithm>
#include <cassert>
#include <memory>

#include "graph/facts.h"

namespace moesh::graph {
namespace {

bool all_given(const Node& node, const std::map<ValueId, Tensor>& given) {
  return std::all_of(node.results.begin(), node.results.end(), [&](ValueId id) { return given.contains(id); });
}

}  // namespace

std::vector<std::int64_t> use_counts(const Graph& graph) {
  std::vector<std::int64_t> uses(graph.values.size());
  for (const Node& node : graph.nodes) {
    for (const ValueId id : node.operands) ++uses[static_cast<std::size_t>(id)];
  }
  for (const ValueId id : graph.results) ++uses[static_cast<std::size_t>(id)];
  return uses;
}

std::unordered_map<std::string_view, std::size_t> named_results(const Graph& graph) {
  std::unordered_map<std::string_view, std::size_t> places;
  for (std::size_t i = 0; i < graph.result_names.size(); ++i) {
    if (!graph.result_names[i].empty()) places.emplace(graph.result_names[i], i);
  }
  return places;
}

std::vector<std::vector<NodeId>> users_of(const Graph& graph) {
  std::vector<std::vector<NodeId>> users(graph.values.size());
  const auto behind_all = static_cast<NodeId>(graph.nodes.size());
  for (NodeId i = 0; i < behind_all; ++i) {
    for (const ValueId id : graph.node(i).operands) users[static_cast<std::size_t>(id)].push_back(i);
  }
  for (const ValueId id : graph.results) users[static_cast<std::size_t>(id)].push_back(behind_all);
  return users;
}

std::vector<bool> needed_nodes(const Graph& graph) {
  std::vector<bool> needed(graph.nodes.size());
  for (const ValueId result : graph.results) needed[static_cast<std::size_t>(graph.value(result).producer)] = true;
  for (std::size_t i = graph.nodes.size(); i-- > 0;) {
    if (!needed[i]) continue;
    for (const ValueId operand : graph.nodes[i].operands) {
      needed[static_cast<std::size_t>(graph.value(operand).producer)] = true;
    }
  }
  return needed;
}

std::vector<ValueId> inputs_of(const Graph& graph) {
  std::vector<ValueId> inputs;
  for (const Node& node : graph.nodes) {
    if (node.op == Op::input) inputs.push_back(node.results.front());
  }
  return inputs;
}

std::vector<std::pair<Shape, DType>> results_of(const Graph& graph, const Node& node) {
  std::vector<std::pair<Shape, DType>> results;
  for (const ValueId id : node.results) results.emplace_back(graph.value(id).shape, graph.value(id).dtype);
  return results;
}

std::vector<Tensor> copy_node(Builder& builder, const Graph& graph, const Node& node, const std::vector<Tensor>& operands,
                              Attributes attributes) {
  builder.stand_in_for(node);
  std::vector<Tensor> made = builder.add(node.op, "", operands, std::move(attributes), results_of(graph, node));
  if (!node.tag.empty()) builder.set_tag(made.front(), node.tag);
  return made;
}

std::vector<Tensor> inline_graph(Builder& builder, const Graph& graph, const std::map<ValueId, Tensor>& given) {
  std::vector<Tensor> tensors(graph.values.size());
  for (const auto& [id, tensor] : given) tensors[static_cast<std::size_t>(id)] = tensor;
  for (const Node& node : graph.nodes) {
    if (all_given(node, given)) continue;
    assert(!is_root(node) && "an input that is not given");
    std::vector<Tensor> operands;
    for (const ValueId operand : node.operands) operands.push_back(tensors[static_cast<std::size_t>(operand)]);
    const std::vector<Tensor> made = copy_node(builder, graph, node, operands, node.attributes);
    for (std::size_t i = 0; i < made.size(); ++i) {
      Tensor& slot = tensors[static_cast<std::size_t>(node.results[i])];
      if (!slot) slot = made[i];
    }
  }
  return tensors;
}

ValueId applied_gradient(const Node& node) {
  const int applied = facts_of(node.op).applied;
  return applied < 0 ? -1 : node.operands[static_cast<std::size_t>(applied)];
}

Graph with_operands_replaced(Graph graph, const std::map<ValueId, ValueId>& stand_ins) {
  const auto replace = [&](ValueId& id) {
    if (const auto found = stand_ins.find(id); found != stand_ins.end()) id = found->second;
  };
  for (Node& node : graph.nodes) {
    for (ValueId& operand : node.operands) replace(operand);
  }
  for (ValueId& result : graph.results) replace(result);
  return graph;
}

ValueId add_value(Graph& graph, Value value) {
  graph.values.push_back(std::move(value));
  return static_cast<ValueId>(graph.values.size() - 1);
}

void find_producers(Graph& graph) {
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    for (const ValueId result : graph.nodes[i].results) graph.values[static_cast<std::size_t>(result)].producer = static_cast<NodeId>(i);
  }
}

void replace_body(RepeatOf& repeat, Graph body) {
  repeat.body = std::make_shared<const Graph>(std::move(body));
  repeat.saved.clear();
}

void replace_body(RegionOf& region, Graph body) {
  region.body = std::make_shared<const Graph>(std::move(body));
  region.saved.clear();
}

Value stacked(Value value, const std::vector<std::int64_t>& sizes) {
  value.shape.insert(value.shape.begin(), sizes.begin(), sizes.end());
  if (!value.spec.dims.empty()) value.spec.dims.insert(value.spec.dims.begin(), sizes.size(), {});
  return value;
}

ValueId add_stack(Graph& graph, Node& loop, Graph& body, ValueId value) {
  auto& of = std::get<RepeatOf>(loop.attributes);
  body.results.push_back(value);
  of.stacks.push_back(0);
  loop.results.push_back(add_value(graph, stacked(body.value(value), of.sizes)));
  return loop.results.back();
}

ValueId add_slice(Node& loop, Graph& body, ValueId stack, Value slice, const std::string& path, Phase phase) {
  const InputOf input{.labels = Labels(slice.shape.size())};
  const ValueId made = add_value(body, std::move(slice));
  const auto behind = std::stable_partition(body.nodes.begin(), body.nodes.end(), [](const Node& node) { return is_root(node); });
  body.nodes.insert(behind, {Op::input, path, "", {}, {made}, input, phase});
  find_producers(body);
  std::get<RepeatOf>(loop.attributes).slices.push_back(0);
  loop.operands.push_back(stack);
  return made;
}

Graph without_constraints(const Graph& graph) {
  std::map<ValueId, ValueId> stand_ins;
  Graph made = graph;
  for (Node& node : made.nodes) {
    if (auto* repeat = std::get_if<RepeatOf>(&node.attributes)) replace_body(*repeat, without_constraints(*repeat->body));
    if (node.op != Op::constraint) continue;
    const auto known = stand_ins.find(node.operands[0]);
    stand_ins[node.results[0]] = known == stand_ins.end() ? node.operands[0] : known->second;
  }
  return without_dead_nodes(with_operands_replaced(std::move(made), stand_ins));
}

namespace {

// Puts the nodes of blocks, or of loops of one iteration, in their place.
class Inlining {
 public:
  enum class Of : std::uint8_t { blocks, single_loops };

  explicit Inlining(Of of) : of_(of) {}

  Graph run(const Graph& graph) {
    std::vector<ValueId> moved(graph.values.size(), -1);
    add(graph, moved, false);
    for (const ValueId id : graph.results) made_.results.push_back(moved[static_cast<std::size_t>(id)]);
    made_.result_names = graph.result_names;
    return std::move(made_);
  }

 private:
  bool is_inlined(const RepeatOf& repeat) const {
    return of_ == Of::blocks ? repeat.is_block() : !repeat.is_block() && repeat.count() == 1;
  }

  // `moved`: the new id of each value; those of the inputs of a body that is inlined are known already.
  void add(const Graph& graph, std::vector<ValueId>& moved, bool is_body) {
    for (const Node& node : graph.nodes) {
      const auto* repeat = std::get_if<RepeatOf>(&node.attributes);
      if (is_body && node.op == Op::input) continue;
      if (repeat != nullptr && is_inlined(*repeat)) {
        add_body(graph, node, *repeat, moved);
      } else {
        add(graph, node, moved);
      }
    }
  }

  void add_body(const Graph& graph, const Node& node, const RepeatOf& repeat, std::vector<ValueId>& moved) {
    const Graph& body = *repeat.body;
    std::vector<ValueId> inside(body.values.size(), -1);
    const std::vector<ValueId> inputs = inputs_of(body);
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const ValueId operand = moved[static_cast<std::size_t>(node.operands[i])];
      inside[static_cast<std::size_t>(inputs[i])] = as(body.value(inputs[i]), operand, body.producer_of(inputs[i]));
    }
    add(body, inside, true);
    for (std::size_t i = 0; i < node.results.size(); ++i) {
      const ValueId result = inside[static_cast<std::size_t>(body.results[i])];
      moved[static_cast<std::size_t>(node.results[i])] = as(graph.value(node.results[i]), result, body.producer_of(body.results[i]));
    }
  }

  // The value in the shape of another: stacks of loops of one iteration have dims of size 1 more than what is stacked.
  ValueId as(Value like, ValueId id, const Node& named) {
    if (made_.value(id).shape == like.shape) return id;
    like.producer = static_cast<NodeId>(made_.nodes.size());
    made_.values.push_back(std::move(like));
    const auto made = static_cast<ValueId>(made_.values.size()) - 1;
    made_.nodes.push_back({Op::reshape, named.path, "", {id}, {made}, {}, named.phase});
    return made;
  }

  void add(const Graph& graph, Node node, std::vector<ValueId>& moved) {
    for (ValueId& operand : node.operands) operand = moved[static_cast<std::size_t>(operand)];
    for (ValueId& result : node.results) {
      moved[static_cast<std::size_t>(result)] = static_cast<ValueId>(made_.values.size());
      made_.values.push_back(graph.value(result));
      made_.values.back().producer = static_cast<NodeId>(made_.nodes.size());
      result = moved[static_cast<std::size_t>(result)];
    }
    if (auto* repeat = std::get_if<RepeatOf>(&node.attributes); repeat != nullptr && of_ == Of::blocks)
      replace_body(*repeat, with_blocks_inlined(*repeat->body));
    made_.nodes.push_back(std::move(node));
  }

  Of of_;
  Graph made_;
};

}  // namespace

Graph with_blocks_inlined(const Graph& graph) { return Inlining(Inlining::Of::blocks).run(graph); }

Graph with_single_loops_inlined(const Graph& graph) { return Inlining(Inlining::Of::single_loops).run(graph); }

namespace {

class Reordering {
 public:
  explicit Reordering(const Graph& graph) : graph_(graph), moved_(graph.nodes.size(), -1), made_(graph) { made_.nodes.clear(); }

  void add(NodeId id) {
    if (moved_[static_cast<std::size_t>(id)] >= 0) return;
    const Node& node = graph_.node(id);
    for (const ValueId operand : node.operands) add(graph_.value(operand).producer);
    moved_[static_cast<std::size_t>(id)] = static_cast<NodeId>(made_.nodes.size());
    made_.nodes.push_back(node);
  }

  Graph take() {
    for (Value& value : made_.values) value.producer = moved_[static_cast<std::size_t>(value.producer)];
    return std::move(made_);
  }

 private:
  const Graph& graph_;
  std::vector<NodeId> moved_;
  Graph made_;
};

}  // namespace

Graph with_nodes_when_needed(const Graph& graph, std::size_t count) {
  Reordering order(graph);
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    if (is_root(graph.nodes[i]) || i >= count) order.add(static_cast<NodeId>(i));
  }
  for (std::size_t i = 0; i < count; ++i) order.add(static_cast<NodeId>(i));
  return order.take();
}

namespace {

// The graph with only the nodes that are kept.
Graph with_nodes(Graph graph, const std::vector<bool>& is_kept) {
  Graph kept;
  std::vector<ValueId> moved(graph.values.size(), -1);
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    Node& node = graph.nodes[i];
    if (!is_kept[i]) continue;
    for (ValueId& operand : node.operands) operand = moved[static_cast<std::size_t>(operand)];
    for (ValueId& result : node.results) {
      Value value = std::move(graph.values[static_cast<std::size_t>(result)]);
      value.producer = static_cast<NodeId>(kept.nodes.size());
      moved[static_cast<std::size_t>(result)] = static_cast<ValueId>(kept.values.size());
      result = static_cast<ValueId>(kept.values.size());
      kept.values.push_back(std::move(value));
    }
    kept.nodes.push_back(std::move(node));
  }
  for (const ValueId result : graph.results) kept.results.push_back(moved[static_cast<std::size_t>(result)]);
  kept.result_names = std::move(graph.result_names);
  return kept;
}

template <typename T>
std::vector<T> chosen(const std::vector<T>& from, const std::vector<bool>& is_chosen) {
  std::vector<T> made;
  for (std::size_t i = 0; i < from.size(); ++i) {
    if (is_chosen[i]) made.push_back(from[i]);
  }
  return made;
}

// The entries after the first `count`, which are always chosen themselves.
std::vector<bool> behind(const std::vector<bool>& is_chosen, int count) { return {is_chosen.begin() + count, is_chosen.end()}; }

// Walks from the last node to the first and drops what no later node reads; for nodes with bodies it drops single results and operands.
class Pruning {
 public:
  explicit Pruning(Graph graph) : graph_(std::move(graph)), is_read_(graph_.values.size()), is_kept_(graph_.nodes.size()) {}

  Graph run() {
    look();
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) is_kept_[i] = is_kept_[i] || is_root(graph_.nodes[i]);
    return with_nodes(std::move(graph_), is_kept_);
  }

 private:
  bool is_read(ValueId id) const { return is_read_[static_cast<std::size_t>(id)]; }

  void look() {
    for (const ValueId result : graph_.results) is_read_[static_cast<std::size_t>(result)] = true;
    for (std::size_t i = graph_.nodes.size(); i-- > 0;) {
      Node& node = graph_.nodes[i];
      is_kept_[i] = std::any_of(node.results.begin(), node.results.end(), [&](ValueId id) { return is_read(id); });
      if (!is_kept_[i]) continue;
      if (auto* repeat = std::get_if<RepeatOf>(&node.attributes)) shrink(node, *repeat);
      if (auto* region = std::get_if<RegionOf>(&node.attributes)) shrink(node, *region);
      for (const ValueId operand : node.operands) is_read_[static_cast<std::size_t>(operand)] = true;
    }
  }

  void shrink(Node& node, RepeatOf& of) const {
    const std::vector<bool> results = read_results(node, of.carried);
    of.stacks = chosen(of.stacks, behind(results, of.carried));
    const std::vector<bool> operands = shrink_body(node, of, results, of.carried);
    of.shared = static_cast<int>(std::count(operands.begin() + of.carried, operands.begin() + of.carried + of.shared, true));
    of.slices = chosen(of.slices, behind(operands, static_cast<int>(operands.size() - of.slices.size())));
  }

  void shrink(Node& node, RegionOf& of) const {
    const std::vector<bool> results = read_results(node, 0);
    of.results = chosen(of.results, results);
    of.operands = chosen(of.operands, shrink_body(node, of, results, 0));
  }

  std::vector<bool> read_results(const Node& node, int carried) const {
    std::vector<bool> results;
    for (const ValueId id : node.results) results.push_back(static_cast<int>(results.size()) < carried || is_read(id));
    return results;
  }

  // Returns for each operand of the node whether it is left.
  template <typename Of>
  std::vector<bool> shrink_body(Node& node, Of& of, const std::vector<bool>& results, int carried) const {
    Graph body = *of.body;
    body.results = chosen(body.results, results);
    body.result_names = chosen(body.result_names, results);
    Pruning inner(std::move(body));
    inner.look();
    std::vector<bool> operands;
    for (std::size_t i = 0; i < inner.graph_.nodes.size(); ++i) {
      if (inner.graph_.nodes[i].op != Op::input) continue;
      if (static_cast<int>(operands.size()) < carried) inner.is_kept_[i] = true;
      operands.push_back(inner.is_kept_[i]);
    }
    of.body = std::make_shared<const Graph>(with_nodes(std::move(inner.graph_), inner.is_kept_));
    of.saved.clear();
    node.results = chosen(node.results, results);
    node.operands = chosen(node.operands, operands);
    return operands;
  }

  Graph graph_;
  std::vector<bool> is_read_;  // by value
  std::vector<bool> is_kept_;  // by node
};

}  // namespace

Graph without_dead_nodes(Graph graph) {
  std::vector<bool> is_kept = needed_nodes(graph);
  for (std::size_t i = 0; i < is_kept.size(); ++i) is_kept[i] = is_kept[i] || is_root(graph.nodes[i]);
  return with_nodes(std::move(graph), is_kept);
}

Graph without_dead_results(Graph graph) { return Pruning(std::move(graph)).run(); }

}  // namespace moesh::graph
