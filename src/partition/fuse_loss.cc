#include "partition/fuse_loss.h"

#include <algorithm>
#include <map>
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
using graph::ValueId;

// The nodes that are fused; -1 for the last three in a graph without gradients. The entropy of pieces of a vocabulary is vocab_scores.
struct Loss {
  NodeId scores, entropy, gradient = -1, dx = -1, dtable = -1;
  std::vector<NodeId> between{};  // from the loss back to the product: what scales or caps logits
  graph::VocabLossOf of{};
};

class Fusion {
 public:
  explicit Fusion(const Graph& graph) : graph_(graph), users_(graph::users_of(graph)) {}

  // The graph with this loss fused; nothing if it cannot be.
  std::optional<Graph> run(NodeId entropy) const {
    const std::optional<Loss> loss = loss_of(entropy);
    if (!loss) return std::nullopt;
    if (is_of_pieces(*loss)) return fused_pieces(*loss);
    return loss->gradient < 0 ? fused_alone(*loss) : fused(*loss);
  }

 private:
  const Node& node(NodeId id) const { return graph_.node(id); }
  const sharding::Spec& spec_of(ValueId id) const { return graph_.value(id).spec; }
  bool is_whole(ValueId id, std::size_t dim) const { return spec_of(id).dims.empty() || spec_of(id).dims[dim].empty(); }
  bool is_sum(ValueId id) const { return !spec_of(id).partial.empty(); }

  bool is_result(ValueId id) const {
    return !users_[at(id)].empty() && users_[at(id)].back() == static_cast<NodeId>(graph_.nodes.size());
  }

  // The equation of an einsum; nothing for another op.
  std::optional<graph::Equation> equation_of(NodeId id) const {
    const auto* of = std::get_if<graph::EinsumOf>(&node(id).attributes);
    return of == nullptr ? std::nullopt : std::optional(graph::parse_equation(of->equation));
  }

  std::optional<Loss> loss_of(NodeId entropy) const {
    const ValueId logits = node(entropy).operands[0];
    Loss loss{.scores = graph_.value(logits).producer, .entropy = entropy};
    if (is_sum(logits) || !find_scale_and_cap(loss) || !find_scores(loss)) return std::nullopt;
    for (const NodeId user : users_[at(logits)]) {
      if (user == entropy) continue;
      if (loss.gradient >= 0 || !is_gradient(user, node(entropy))) return std::nullopt;
      loss.gradient = user;
    }
    const std::optional<ValueId> dscores = gradient_of_scores(loss);
    if (!dscores) return std::nullopt;
    if (loss.gradient >= 0 && (!find_products(loss, *dscores) || (!is_of_pieces(loss) && needs_loss(loss)))) return std::nullopt;
    if (const auto* of = std::get_if<graph::CrossEntropyOf>(&node(loss.gradient >= 0 ? loss.gradient : entropy).attributes))
      loss.of.z_loss = of->z_loss;
    return loss;
  }

  // Steps back over what scales or caps logits, to the product that makes them.
  bool find_scale_and_cap(Loss& loss) const {
    double factor = 1;
    for (;; loss.scores = graph_.value(node(loss.scores).operands[0]).producer) {
      const auto* unary = std::get_if<graph::UnaryOf>(&node(loss.scores).attributes);
      if (unary == nullptr) break;
      if (unary->function == graph::Unary::scale) {
        factor *= unary->a;
      } else if (unary->function == graph::Unary::tanh && loss.of.soft_cap == 0 && factor > 0) {
        loss.of.soft_cap = std::exchange(factor, 1);
      } else {
        return false;
      }
      loss.between.push_back(loss.scores);
    }
    loss.of.scale = factor;
    return true;
  }

  // The gradient of the product (a value of no meaning in a graph without gradients); nothing if something else reads it, the logits or
  // what lies between.
  std::optional<ValueId> gradient_of_scores(const Loss& loss) const {
    const bool has_gradient = loss.gradient >= 0;
    ValueId gradient = has_gradient ? result_of(loss.gradient) : -1;
    std::vector<NodeId> readers{loss.entropy};
    if (has_gradient) readers.push_back(loss.gradient);
    for (const NodeId id : loss.between) {
      if (!are_users(result_of(id), readers)) return std::nullopt;
      readers = {id};
      if (!has_gradient) continue;
      const auto& users = users_[at(gradient)];
      if (users.size() != 1 || is_result(gradient) || !is_gradient_of_unary(users[0], node(id))) return std::nullopt;
      if (reads(users[0], node(id).operands[0])) readers.push_back(users[0]);
      gradient = result_of(users[0]);
    }
    return are_users(result_of(loss.scores), readers) ? std::optional(gradient) : std::nullopt;
  }

  bool are_users(ValueId id, std::vector<NodeId> expected) const {
    std::sort(expected.begin(), expected.end());
    return users_[at(id)] == expected;
  }

  // Whether a node takes the gradient of what `of` makes to that of what it reads.
  bool is_gradient_of_unary(NodeId id, const Node& of) const {
    const auto& unary = std::get<graph::UnaryOf>(of.attributes);
    const auto* gradient = std::get_if<graph::UnaryOf>(&node(id).attributes);
    if (gradient == nullptr || *gradient != unary) return false;
    return unary.function == graph::Unary::scale ? node(id).op == Op::unary : node(id).op == Op::unary_grad && reads(id, of.operands[0]);
  }

  bool is_of_pieces(const Loss& loss) const { return node(loss.entropy).op == Op::vocab_scores; }

  // Whether the logits are x[B, S, M] times the table, with the dim M of both unsharded, and that of the vocabulary but for pieces.
  bool find_scores(Loss& loss) const {
    const std::optional<graph::Equation> of = equation_of(loss.scores);
    if (!of || of->a.size() != 3 || of->b.size() != 2) return false;
    const std::string tokens = of->a.substr(0, 2);
    loss.of.by_token = of->b[1] == of->a[2];
    const char word = of->b[loss.of.by_token ? 0 : 1];
    const Node& scores = node(loss.scores);
    const bool is_product = (loss.of.by_token || of->b[0] == of->a[2]) && of->result == tokens + word && word != of->a[2];
    return is_product && graph_.value(scores.results[0]).dtype == graph_.value(scores.operands[0]).dtype &&
           is_whole(scores.operands[0], 2) && has_whole_words(loss, scores.operands[1]);
  }

  // Whether a device has the words of a table, or of its gradient, that it has: all of their dims, and the whole vocabulary but for pieces.
  bool has_whole_words(const Loss& loss, ValueId table) const {
    const std::size_t words = loss.of.by_token ? 0 : 1;
    return is_whole(table, 1 - words) && (is_of_pieces(loss) || is_whole(table, words));
  }

  bool is_gradient(NodeId id, const Node& entropy) const {
    const Node& of = node(id);
    const bool is_of_piece = entropy.op == Op::vocab_scores;
    return of.op == Op::cross_entropy_grad && of.operands.size() == (is_of_piece ? 5 : 4) && of.operands[1] == entropy.operands[1] &&
           (is_of_piece || of.operands[2] == entropy.operands[2]);
  }

  bool find_products(Loss& loss, ValueId dscores) const {
    const ValueId x = node(loss.scores).operands[0], table = node(loss.scores).operands[1];
    if (is_result(dscores)) return false;
    for (const NodeId user : users_[at(dscores)]) {
      const bool takes_table = reads(user, table), takes_x = reads(user, x);
      if (!equation_of(user) || takes_table == takes_x) return false;
      NodeId& found = takes_table ? loss.dx : loss.dtable;
      if (found >= 0) return false;
      found = user;
    }
    if (loss.dx < 0 || loss.dtable < 0) return false;
    const graph::Value &dx = graph_.value(result_of(loss.dx)), &of_x = graph_.value(x), &dtable = graph_.value(result_of(loss.dtable));
    const bool has_whole_x = is_of_pieces(loss) ? dx.spec.dims == of_x.spec.dims : dx.spec == of_x.spec;
    return dx.shape == of_x.shape && dx.dtype == of_x.dtype && has_whole_x && dtable.shape == graph_.value(table).shape &&
           has_whole_words(loss, result_of(loss.dtable)) && (!is_of_pieces(loss) || dtable.spec.dims == graph_.value(table).spec.dims);
  }

  bool reads(NodeId id, ValueId value) const {
    return std::find(node(id).operands.begin(), node(id).operands.end(), value) != node(id).operands.end();
  }
  ValueId result_of(NodeId id) const { return node(id).results[0]; }

  // By node, whether it is the loss or depends on it.
  std::vector<bool> later_nodes(const Loss& loss) const {
    std::vector<bool> later(graph_.nodes.size());
    later[at(loss.entropy)] = true;
    for (std::size_t i = at(loss.entropy) + 1; i < graph_.nodes.size(); ++i) {
      const auto& operands = graph_.nodes[i].operands;
      later[i] = std::any_of(operands.begin(), operands.end(), [&](ValueId id) { return later[at(graph_.value(id).producer)]; });
    }
    return later;
  }
  bool needs_loss(const Loss& loss) const { return later_nodes(loss)[at(graph_.value(node(loss.gradient).operands[3]).producer)]; }

  Graph fused_alone(const Loss& loss) const {
    Graph made = graph_;
    Node& whole = made.nodes[at(loss.entropy)];
    const Node& scores = node(loss.scores);
    whole.op = Op::vocab_loss;
    whole.operands = {scores.operands[0], scores.operands[1], whole.operands[1], whole.operands[2]};
    whole.attributes = loss.of;
    return graph::without_dead_nodes(std::move(made));
  }

  // Logarithms take the place of the scores, and gradients that of the gradient.
  Graph fused_pieces(const Loss& loss) const {
    Graph made = graph_;
    const ValueId x = node(loss.scores).operands[0], table = node(loss.scores).operands[1];
    Node& logs = made.nodes[at(loss.entropy)];
    logs.op = Op::vocab_logs;
    logs.operands = {x, table, logs.operands[1]};
    logs.attributes = loss.of;
    if (loss.gradient < 0) return graph::without_dead_nodes(std::move(made));
    std::map<ValueId, ValueId> stand_ins;
    for (const ValueId id : {result_of(loss.dx), result_of(loss.dtable)}) stand_ins[id] = graph::add_value(made, graph_.value(id));
    Node& gradient = made.nodes[at(loss.gradient)];
    const std::vector<ValueId> taken = gradient.operands;
    gradient.op = Op::vocab_loss_grad;
    gradient.operands = {x, table, taken[1], taken[2], taken[3], taken[4]};
    gradient.attributes = loss.of;
    gradient.results = {stand_ins[result_of(loss.dx)], stand_ins[result_of(loss.dtable)]};
    graph::find_producers(made);
    return graph::without_dead_nodes(graph::with_operands_replaced(std::move(made), stand_ins));
  }

  // The fused loss takes the place of the gradient; nodes before it that need the loss move to just after it.
  Graph fused(const Loss& loss) const {
    Graph made = graph_;
    const Node& scores = node(loss.scores);
    const Node& gradient = node(loss.gradient);
    Node whole{Op::vocab_loss,
               gradient.path,
               "",
               {scores.operands[0], scores.operands[1], gradient.operands[1], gradient.operands[2], gradient.operands[3]},
               {},
               loss.of,
               gradient.phase};
    std::map<ValueId, ValueId> stand_ins;
    std::vector<ValueId> results{result_of(loss.entropy), result_of(loss.dx), result_of(loss.dtable)};
    const std::vector<ValueId>& of_entropy = node(loss.entropy).results;
    results.insert(results.end(), of_entropy.begin() + 1, of_entropy.end());
    for (const ValueId id : results) {
      stand_ins[id] = graph::add_value(made, graph_.value(id));
      whole.results.push_back(stand_ins[id]);
    }
    place(made, loss, {std::move(whole)});
    return graph::without_dead_nodes(graph::with_operands_replaced(std::move(made), stand_ins));
  }

  void place(Graph& made, const Loss& loss, std::vector<Node> behind) const {
    const std::vector<bool> later = later_nodes(loss);
    made.nodes.clear();
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      const Node& next = graph_.nodes[i];
      if (i != at(loss.entropy) && later[i] && i < at(loss.gradient)) behind.push_back(next);
      else made.nodes.push_back(next);
      if (i == at(loss.gradient)) made.nodes.insert(made.nodes.end(), behind.begin(), behind.end());
    }
    graph::find_producers(made);
  }

  const Graph& graph_;
  std::vector<std::vector<NodeId>> users_;
};

// The graph with one loss fused, in it or in the body of a repeat; nothing if there is none to fuse.
std::optional<Graph> fused_anywhere(const Graph& graph, bool makes_again) {
  std::optional<Graph> made;
  for (std::size_t i = 0; !made && i < graph.nodes.size(); ++i) {
    const Op op = graph.nodes[i].op;
    if (op == Op::cross_entropy || (makes_again && op == Op::vocab_scores)) made = Fusion(graph).run(static_cast<NodeId>(i));
    const auto* repeat = std::get_if<graph::RepeatOf>(&graph.nodes[i].attributes);
    std::optional<Graph> body = repeat == nullptr ? std::nullopt : fused_anywhere(*repeat->body, makes_again);
    if (!body) continue;
    made = graph;
    graph::replace_body(std::get<graph::RepeatOf>(made->nodes[i].attributes), *std::move(body));
  }
  return made;
}

}  // namespace

Graph with_loss_fused(Graph graph, bool makes_again) {
  while (std::optional<Graph> made = fused_anywhere(graph, makes_again)) graph = *std::move(made);
  return graph;
}

}  // namespace moesh::partition
