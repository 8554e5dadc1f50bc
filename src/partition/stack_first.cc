#include "partition/stack_first.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "base/place.h"
#include "graph/facts.h"
#include "graph/rewrite.h"

namespace moesh::partition {
namespace {

using graph::Graph;
using graph::Node;
using graph::Op;
using graph::RepeatOf;
using graph::ValueId;

// Groups of values, of a graph and the bodies in it, that must have the same order of dims, with the dim that repeats ask to be first.
class Groups {
 public:
  Groups(const Graph& graph, const Graph* beside) {
    const std::size_t first = visit(graph);
    const std::set<std::string> kept = beside == nullptr ? std::set<std::string>() : kept_in(*beside);
    const auto results = graph::named_results(graph);
    for (const Node& node : graph.nodes) {
      if (!graph::is_root(node)) continue;
      const auto next = results.find(node.path);
      if (next != results.end()) unite(first + at(graph.results[next->second]), first + at(node.results[0]));
      else if (node.op != Op::parameter) fix(first + at(node.results[0]));  // the caller feeds it in each run
      if (kept.contains(node.path)) fix(first + at(node.results[0]));
    }
    for (std::size_t value = 0; value < parents_.size(); ++value) parents_[value] = root(value);
  }

  // The dim of value `id` that becomes the first; 0 if none moves. `number` counts graphs in the order in which they were visited.
  int dim(std::size_t number, ValueId id) const {
    const Group& group = groups_[parents_[firsts_[number] + at(id)]];
    return group.is_fixed ? 0 : group.dim;
  }

 private:
  struct Group {
    int dim = 0;
    bool is_asked = false;
    bool is_fixed = false;
  };

  static std::set<std::string> kept_in(const Graph& graph) {
    std::set<std::string> kept;
    for (const Node& node : graph.nodes) {
      const auto* parameter = std::get_if<graph::ParameterOf>(&node.attributes);
      if (parameter != nullptr && parameter->first == 0) kept.insert(node.path);
    }
    return kept;
  }

  std::size_t root(std::size_t value) {
    while (parents_[value] != value) value = parents_[value] = parents_[parents_[value]];
    return value;
  }
  void unite(std::size_t a, std::size_t b) {
    a = root(a);
    b = root(b);
    if (a == b) return;
    parents_[b] = a;
    if (groups_[b].is_asked) ask(a, groups_[b].dim);
    groups_[a].is_fixed = groups_[a].is_fixed || groups_[b].is_fixed;
  }
  void ask(std::size_t value, int dim) {
    Group& group = groups_[root(value)];
    group.is_fixed = group.is_fixed || (group.is_asked && group.dim != dim);
    group.is_asked = true;
    group.dim = dim;
  }
  void fix(std::size_t value) { groups_[root(value)].is_fixed = true; }

  // Bodies are visited in the order of their nodes, each numbered after the graph that contains it.
  std::size_t visit(const Graph& graph) {
    const std::size_t first = parents_.size();
    firsts_.push_back(first);
    parents_.resize(first + graph.values.size());
    groups_.resize(parents_.size());
    std::iota(parents_.begin() + static_cast<std::ptrdiff_t>(first), parents_.end(), first);
    for (const Node& node : graph.nodes) visit(graph, node, first);
    return first;
  }

  void visit(const Graph& graph, const Node& node, std::size_t first) {
    if (graph::is_root(node) || node.op == Op::sum_squares) return;
    if (const auto* repeat = std::get_if<RepeatOf>(&node.attributes)) return visit_repeat(node, *repeat, first);
    const Shape& shape = graph.value(node.results[0]).shape;
    for (const auto* values : {&node.operands, &node.results}) {
      for (const ValueId id : *values) {
        if (!graph::facts_of(node.op).in_any_order) fix(first + at(id));
        else if (graph.value(id).shape == shape) unite(first + at(node.results[0]), first + at(id));
      }
    }
  }

  void visit_repeat(const Node& node, const RepeatOf& repeat, std::size_t first) {
    const std::size_t inside = visit(*repeat.body);
    const std::vector<ValueId> inputs = graph::inputs_of(*repeat.body);
    const auto carried = at(repeat.carried), shared_end = carried + at(repeat.shared);
    const bool is_one_dim = repeat.sizes.size() == 1;
    const auto slice = [&](std::size_t stack, std::size_t part, int dim) {
      const bool is_stack_too = groups_[root(part)].is_asked && groups_[root(part)].dim > 0;
      fix(part);
      is_one_dim && !is_stack_too ? ask(stack, dim) : fix(stack);
    };
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const std::size_t operand = first + at(node.operands[i]), input = inside + at(inputs[i]);
      i < shared_end ? unite(operand, input) : slice(operand, input, repeat.slices[i - shared_end]);
    }
    for (std::size_t i = 0; i < node.results.size(); ++i) {
      const std::size_t result = first + at(node.results[i]), made = inside + at(repeat.body->results[i]);
      if (i >= carried) {
        slice(result, made, repeat.stacks[i - carried]);
      } else {
        unite(result, made);
        unite(result, first + at(node.operands[i]));
      }
    }
  }

  std::vector<std::size_t> parents_, firsts_;
  std::vector<Group> groups_;
};

template <typename T>
std::vector<T> with_first(std::vector<T> dims, int dim) {
  if (!dims.empty()) std::rotate(dims.begin(), dims.begin() + dim, dims.begin() + dim + 1);
  return dims;
}

// The new place of a dim after `first` has become the first dim.
int moved(int dim, int first) { return dim == first ? 0 : dim < first ? dim + 1 : dim; }

class Rewrite {
 public:
  Rewrite(const Graph& graph, const Graph* beside) : groups_(graph, beside), made_(rewritten(graph)) {}

  Graph run() {
    std::vector<bool> is_kept(made_.results.size());  // whether it is the next value of a root
    const auto results = graph::named_results(made_);
    for (const Node& node : made_.nodes) {
      const auto next = graph::is_root(node) ? results.find(node.path) : results.end();
      if (next != results.end()) is_kept[next->second] = true;
    }
    for (std::size_t i = 0; i < made_.results.size(); ++i) {
      const int dim = groups_.dim(0, made_.results[i]);
      if (dim > 0 && !is_kept[i]) turn_back(made_.results[i], dim);
    }
    return std::move(made_);
  }

 private:
  Graph rewritten(const Graph& graph) {
    const std::size_t number = next_++;
    Graph made = graph;
    for (std::size_t id = 0; id < made.values.size(); ++id) {
      const int dim = groups_.dim(number, static_cast<ValueId>(id));
      made.values[id].shape = with_first(std::move(made.values[id].shape), dim);
      made.values[id].spec.dims = with_first(std::move(made.values[id].spec.dims), dim);
    }
    for (Node& node : made.nodes) rewrite(number, node);
    return made;
  }

  void rewrite(std::size_t number, Node& node) {
    const int dim = node.results.empty() ? 0 : groups_.dim(number, node.results[0]);
    if (auto* parameter = std::get_if<graph::ParameterOf>(&node.attributes)) parameter->first = dim;
    if (auto* input = std::get_if<graph::InputOf>(&node.attributes)) input->first = dim;
    if (auto* reshard = std::get_if<graph::ReshardOf>(&node.attributes); reshard != nullptr && dim > 0) {
      for (int* of : {&reshard->from, &reshard->to}) *of = *of < 0 ? *of : moved(*of, dim);
    }
    if (auto* clip = std::get_if<graph::ClipOf>(&node.attributes); clip != nullptr && dim > 0) {
      for (int& of : clip->dims) of = moved(of, dim);
    }
    auto* repeat = std::get_if<RepeatOf>(&node.attributes);
    if (repeat == nullptr) return;
    repeat->body = std::make_shared<const Graph>(rewritten(*repeat->body));
    const auto shared_end = at(repeat->carried) + at(repeat->shared);
    for (std::size_t i = 0; i < repeat->slices.size(); ++i) {
      if (groups_.dim(number, node.operands[shared_end + i]) > 0) repeat->slices[i] = 0;
    }
    for (std::size_t i = 0; i < repeat->stacks.size(); ++i) {
      if (groups_.dim(number, node.results[at(repeat->carried) + i]) > 0) repeat->stacks[i] = 0;
    }
  }

  void turn_back(ValueId& id, int dim) {
    const graph::Value& from = made_.value(id);
    std::vector<int> order(from.shape.size());
    std::iota(order.begin(), order.end(), 0);
    std::rotate(order.begin(), order.begin() + 1, order.begin() + dim + 1);
    graph::Value to{{}, from.dtype, static_cast<graph::NodeId>(made_.nodes.size()), from.spec};
    to.spec.dims.clear();
    for (const int d : order) {
      to.shape.push_back(from.shape[at(d)]);
      if (!from.spec.dims.empty()) to.spec.dims.push_back(from.spec.dims[at(d)]);
    }
    Node node{Op::transpose, made_.producer_of(id).path, "", {id}, {static_cast<ValueId>(made_.values.size())}, graph::TransposeOf{order}};
    node.phase = made_.producer_of(id).phase;
    id = node.results[0];
    made_.values.push_back(std::move(to));
    made_.nodes.push_back(std::move(node));
  }

  Groups groups_;
  std::size_t next_ = 0;  // the number of the next graph, in the order of Groups::visit
  Graph made_;
};

}  // namespace

Graph stack_first(const Graph& graph, const Graph* beside) { return Rewrite(graph, beside).run(); }

}  // namespace moesh::partition
