#include "partition/remat_gradients.h"

#include <algorithm>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/place.h"
#include "graph/equation.h"
#include "graph/rewrite.h"

namespace moesh::partition {
namespace {

using graph::Graph;
using graph::Node;
using graph::NodeId;
using graph::Op;
using graph::RepeatOf;
using graph::Value;
using graph::ValueId;

// A gradient is recomputed if the two factors of its product take at most a fourth of its bytes. For factors in bfloat16 their row
// products then take at most half as many multiplications as the gradient itself.
constexpr std::int64_t kTimesSmaller = 4;

// The value of one layer, without the first dim.
Value slice_of(Value value) {
  value.shape.erase(value.shape.begin());
  if (!value.spec.dims.empty()) value.spec.dims.erase(value.spec.dims.begin());
  return value;
}

Node sum_over_layers(ValueId of, ValueId sum, const Node& stands_for) {
  return {Op::reduce, stands_for.path, "", {of}, {sum}, graph::ReduceOf{graph::Reduction::sum, {0}}, stands_for.phase};
}

// The products of one operand's rows with each other (its Gram matrix), where the contracted letters index the rows: for "bsm,bsf->mf"
// those of the first operand are "bsm,acm->bsac". The sum of the squares of a' b is the sum of a a' times b b', element by element.
struct RowProducts {
  explicit RowProducts(const graph::Equation& of) {
    const std::string taken = of.a + of.b;
    char unused = 'a';
    for (const char letter : of.a) {
      if (of.b.find(letter) == std::string::npos) continue;
      shared += letter;
      if (of.result.find(letter) != std::string::npos) continue;
      while (taken.find(unused) != std::string::npos) ++unused;
      depth += letter;
      renamed += unused++;
    }
  }

  std::string equation(const std::string& operand) const {
    std::string other = operand;
    for (char& letter : other) {
      const std::size_t place = depth.find(letter);
      if (place != std::string::npos) letter = renamed[place];
    }
    return operand + "," + other + "->" + shared + renamed;
  }
  Shape shape(const std::string& operand, const Shape& sizes) const {
    Shape made;
    for (const char letter : shared + depth) made.push_back(sizes[operand.find(letter)]);
    return made;
  }

  std::string shared;          // letters that both operands have
  std::string depth, renamed;  // the contracted letters, and their names in the second copy of the operand
};

// Computes the sum of squares of an einsum's result from its operands.
class SquaresOfProducts {
 public:
  // Returns the node that makes `sum` in place of `stands_for`. Nodes that it needs are added to `nodes`.
  Node add(const Node& product, ValueId sum, const Node& stands_for, Graph& graph, std::vector<Node>& nodes) {
    const graph::Equation of = graph::parse_equation(std::get<graph::EinsumOf>(product.attributes).equation);
    const RowProducts rows(of);
    const auto row_products = [&](const std::string& operand, ValueId id) {
      const auto [place, is_new] = made_.try_emplace({id, rows.equation(operand)}, -1);
      if (!is_new) return place->second;
      place->second = graph::add_value(graph, {rows.shape(operand, graph.value(id).shape), DType::float32});
      nodes.push_back({Op::einsum, stands_for.path, "", {id, id}, {place->second}, graph::EinsumOf{place->first.second}, stands_for.phase});
      return place->second;
    };
    const ValueId a = row_products(of.a, product.operands[0]), b = row_products(of.b, product.operands[1]);
    const ValueId squares = graph::add_value(graph, graph.value(a));
    std::vector<int> dims(graph.value(a).shape.size());
    std::iota(dims.begin(), dims.end(), 0);
    nodes.push_back({Op::binary, stands_for.path, "", {a, b}, {squares}, graph::BinaryOf{graph::Binary::multiply}, stands_for.phase});
    return {Op::reduce, stands_for.path, "", {squares}, {sum}, graph::ReduceOf{graph::Reduction::sum, dims}, stands_for.phase};
  }

 private:
  std::map<std::pair<ValueId, std::string>, ValueId> made_;  // by operand and equation
};

// Whether the sum of squares follows from row products of the operands, and the product may be recomputed: an einsum that is not
// quantized, has no addend, and sums over no letter of one operand alone.
bool is_plain_product(const Node& node) {
  const auto* of = std::get_if<graph::EinsumOf>(&node.attributes);
  if (of == nullptr || of->rounded != graph::Rounded::none || node.operands.size() != 2) return false;
  const graph::Equation letters = graph::parse_equation(of->equation);
  const auto is_known = [&](const std::string& operand, const std::string& other) {
    return std::all_of(operand.begin(), operand.end(), [&](char letter) {
      return letters.result.find(letter) != std::string::npos || other.find(letter) != std::string::npos;
    });
  };
  return is_known(letters.a, letters.b) && is_known(letters.b, letters.a);
}

// A gradient that is read only by a sum of squares and by an update.
struct Candidate {
  ValueId gradient;
  std::size_t squares, update;  // the two nodes that read it
};

class Remat {
 public:
  explicit Remat(Graph graph) : graph_(std::move(graph)), before_(graph_.nodes.size()), after_(graph_.nodes.size()) {}

  Graph run() {
    for (const Candidate& candidate : candidates()) {
      const auto maker = at(graph_.value(candidate.gradient).producer);
      if (is_plain_product(graph_.nodes[maker])) make_again(candidate, maker);
      if (graph_.nodes[maker].op == Op::repeat) make_again_by_layers(candidate, maker);
    }
    std::vector<Node> nodes;
    for (std::size_t i = 0; i < before_.size(); ++i) {
      std::move(before_[i].begin(), before_[i].end(), std::back_inserter(nodes));
      nodes.push_back(std::move(graph_.nodes[i]));
      std::move(after_[i].begin(), after_[i].end(), std::back_inserter(nodes));
    }
    graph_.nodes = std::move(nodes);
    graph::find_producers(graph_);
    return graph::without_dead_results(std::move(graph_));
  }

 private:
  std::vector<Candidate> candidates() const {
    std::map<ValueId, std::size_t> squares;
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      const Node& node = graph_.nodes[i];
      if (node.op == Op::sum_squares) squares[node.operands[0]] = i;
    }
    const std::vector<std::vector<NodeId>> users = graph::users_of(graph_);
    std::vector<Candidate> found;
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      const ValueId gradient = graph::applied_gradient(graph_.nodes[i]);
      if (gradient < 0) continue;
      const auto of = squares.find(gradient);
      if (of != squares.end() && users[at(gradient)].size() == 2) found.push_back({gradient, of->second, i});
    }
    std::sort(found.begin(), found.end(), [](const Candidate& a, const Candidate& b) { return a.squares < b.squares; });
    return found;
  }

  static bool is_worth_it(const Graph& graph, const Node& product) {
    std::int64_t factors = 0;
    for (const ValueId id : product.operands) factors += graph::bytes_of(graph.value(id));
    return factors * kTimesSmaller <= graph::bytes_of(graph.value(product.results[0]));
  }

  void make_again(const Candidate& candidate, std::size_t maker) {
    Node again = graph_.nodes[maker];
    if (!is_worth_it(graph_, again)) return;
    Node& update = graph_.nodes[candidate.update];
    Node& squares = graph_.nodes[candidate.squares];
    squares = outside_loops_.add(again, squares.results[0], squares, graph_, before_[candidate.squares]);
    again.phase = update.phase;
    again.results = {graph::add_value(graph_, graph_.value(candidate.gradient))};
    update.operands[1] = again.results[0];
    before_[candidate.update].push_back(std::move(again));
  }

  // An operand of a product in a loop, and its stack over the iterations outside it; -1: the loop does not return one yet.
  struct Factor {
    ValueId inside;
    ValueId stack;
  };
  std::optional<std::vector<Factor>> factors_of(const Node& loop, const RepeatOf& of, const Node& product) const {
    const std::vector<ValueId> inputs = graph::inputs_of(*of.body);
    const auto carried = at(of.carried), shared_end = carried + at(of.shared);
    std::vector<Factor> factors;
    for (const ValueId id : product.operands) {
      const auto input = at(std::find(inputs.begin(), inputs.end(), id) - inputs.begin());
      const bool is_slice = input >= shared_end && input < inputs.size();
      if (input >= carried && input < shared_end) return std::nullopt;
      if (is_slice && of.slices[input - shared_end] != 0) return std::nullopt;
      factors.push_back({id, is_slice ? loop.operands[input] : -1});
      for (std::size_t i = carried; i < loop.results.size() && factors.back().stack < 0; ++i) {
        if (of.body->results[i] == id && of.stacks[i - carried] == 0) factors.back().stack = loop.results[i];
      }
    }
    return factors;
  }

  void make_again_by_layers(const Candidate& candidate, std::size_t maker) {
    Node& loop = graph_.nodes[maker];
    auto& of = std::get<RepeatOf>(loop.attributes);
    const auto result = at(std::find(loop.results.begin(), loop.results.end(), candidate.gradient) - loop.results.begin());
    if (result < at(of.carried) || of.sizes.size() != 1 || of.stacks[result - at(of.carried)] != 0) return;
    const ValueId inside = of.body->results[result];
    const Node product = of.body->producer_of(inside);
    if (!is_plain_product(product) || graph::use_counts(*of.body)[at(inside)] != 1 || !is_worth_it(*of.body, product)) return;
    std::optional<std::vector<Factor>> factors = factors_of(loop, of, product);
    if (!factors) return;
    Graph body = *of.body;
    const auto give = [&](ValueId id) { return graph::add_stack(graph_, loop, body, id); };
    for (Factor& factor : *factors) factor.stack = factor.stack < 0 ? give(factor.inside) : factor.stack;
    Node& squares = graph_.nodes[candidate.squares];
    const ValueId sum = graph::add_value(body, graph_.value(squares.results[0]));
    Node stands_for = squares;
    stands_for.phase = loop.phase;
    body.nodes.push_back(in_loops_[maker].add(product, sum, stands_for, body, body.nodes));
    graph::find_producers(body);
    const ValueId sums = give(sum);
    graph::replace_body(of, std::move(body));
    squares = sum_over_layers(sums, squares.results[0], squares);
    update_by_layers(candidate, of, product, *factors);
  }

  // Turns the update into a loop over the layers that recomputes each layer's gradient.
  void update_by_layers(const Candidate& candidate, const RepeatOf& backward, const Node& product, const std::vector<Factor>& factors) {
    const Node update = graph_.nodes[candidate.update];
    Graph body;
    Node loop{Op::repeat, update.path, "", {}, {}, {}, update.phase};
    RepeatOf of;
    of.sizes = backward.sizes;
    of.labels = backward.labels;
    const auto take = [&](ValueId outer, const char* name, Value value) {
      const Labels labels(value.shape.size());
      const ValueId inner = graph::add_value(body, std::move(value));
      body.nodes.push_back({Op::input, name, "", {}, {inner}, graph::InputOf{labels}, update.phase});
      loop.operands.push_back(outer);
      return inner;
    };
    const auto take_slice = [&](ValueId outer) {
      of.slices.push_back(0);
      return take(outer, "slice", slice_of(graph_.value(outer)));
    };
    Node inner_update = update, again = product;
    of.shared = 1;
    inner_update.operands.back() = take(update.operands.back(), "shared", graph_.value(update.operands.back()));
    for (std::size_t i = 0; i < factors.size(); ++i) again.operands[i] = take_slice(factors[i].stack);
    for (std::size_t i = 0; i + 1 < update.operands.size(); ++i) {
      if (i != 1) inner_update.operands[i] = take_slice(update.operands[i]);
    }
    again.phase = update.phase;
    again.results = {graph::add_value(body, slice_of(graph_.value(candidate.gradient)))};
    inner_update.operands[1] = again.results[0];
    body.nodes.push_back(std::move(again));
    for (std::size_t i = 0; i < update.results.size(); ++i) {
      const Value value = graph_.value(update.results[i]);
      const bool is_sum = value.shape.empty();
      inner_update.results[i] = graph::add_value(body, is_sum ? value : slice_of(value));
      body.results.push_back(inner_update.results[i]);
      of.stacks.push_back(0);
      loop.results.push_back(is_sum ? graph::add_value(graph_, graph::stacked(value, of.sizes)) : update.results[i]);
      if (is_sum) after_[candidate.update].push_back(sum_over_layers(loop.results.back(), update.results[i], update));
    }
    body.nodes.push_back(std::move(inner_update));
    graph::find_producers(body);
    of.body = std::make_shared<const Graph>(std::move(body));
    loop.attributes = std::move(of);
    graph_.nodes[candidate.update] = std::move(loop);
  }

  Graph graph_;
  std::vector<std::vector<Node>> before_, after_;  // by node: new nodes to put before and after it
  SquaresOfProducts outside_loops_;
  std::map<std::size_t, SquaresOfProducts> in_loops_;  // by the loop
};

}  // namespace

Graph with_gradients_made_again(Graph graph) { return Remat(std::move(graph)).run(); }

}  // namespace moesh::partition
