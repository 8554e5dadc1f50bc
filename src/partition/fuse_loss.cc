#include "partition/fuse_loss.h"

#include <algorithm>
#include <map>
#include <optional>
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

// The nodes that are fused; -1 for the last three in a graph without gradients.
struct Loss {
  NodeId scores, entropy, gradient, dx, dtable;
  bool by_token = false;  // the table is [V, M]
};

class Fusion {
 public:
  explicit Fusion(const Graph& graph) : graph_(graph), users_(graph::users_of(graph)) {}

  // The graph with this loss fused; nothing if it cannot be.
  std::optional<Graph> run(NodeId entropy) const {
    const std::optional<Loss> loss = loss_of(entropy);
    if (!loss) return std::nullopt;
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
    Loss loss{graph_.value(logits).producer, entropy, -1, -1, -1};
    if (is_result(logits) || is_sum(logits) || !find_scores(loss)) return std::nullopt;
    for (const NodeId user : users_[at(logits)]) {
      if (user == entropy) continue;
      if (loss.gradient >= 0 || !is_gradient(user, node(entropy))) return std::nullopt;
      loss.gradient = user;
    }
    if (users_[at(logits)].size() == 1) return loss;
    if (loss.gradient < 0 || !find_products(loss) || needs_loss(loss)) return std::nullopt;
    return loss;
  }

  // Whether the logits are x[B, S, M] times the table, with the dim M of x and the table unsharded.
  bool find_scores(Loss& loss) const {
    const std::optional<graph::Equation> of = equation_of(loss.scores);
    if (!of || of->a.size() != 3 || of->b.size() != 2) return false;
    const std::string tokens = of->a.substr(0, 2);
    loss.by_token = of->b[1] == of->a[2];
    const char word = of->b[loss.by_token ? 0 : 1];
    const Node& scores = node(loss.scores);
    const bool is_product = (loss.by_token || of->b[0] == of->a[2]) && of->result == tokens + word && word != of->a[2];
    return is_product && graph_.value(scores.results[0]).dtype == graph_.value(scores.operands[0]).dtype &&
           is_whole(scores.operands[0], 2) && is_whole(scores.operands[1], 0) && is_whole(scores.operands[1], 1);
  }

  bool is_gradient(NodeId id, const Node& entropy) const {
    const Node& of = node(id);
    return of.op == Op::cross_entropy_grad && of.operands.size() == 4 && of.operands[1] == entropy.operands[1] &&
           of.operands[2] == entropy.operands[2];
  }

  bool find_products(Loss& loss) const {
    const ValueId dlogits = node(loss.gradient).results[0], x = node(loss.scores).operands[0], table = node(loss.scores).operands[1];
    if (is_result(dlogits)) return false;
    for (const NodeId user : users_[at(dlogits)]) {
      const bool takes_table = reads(user, table), takes_x = reads(user, x);
      if (!equation_of(user) || takes_table == takes_x) return false;
      NodeId& found = takes_table ? loss.dx : loss.dtable;
      if (found >= 0) return false;
      found = user;
    }
    return loss.dx >= 0 && loss.dtable >= 0 && is_alike(graph_.value(result_of(loss.dx)), graph_.value(x)) &&
           graph_.value(result_of(loss.dtable)).shape == graph_.value(table).shape && is_whole(result_of(loss.dtable), 0) &&
           is_whole(result_of(loss.dtable), 1);
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

  // Whether a cast to float32 is the only reader of dtable. vocab_loss makes dtable in float32, so it then need not be rounded.
  bool is_wanted_wide(const Loss& loss) const {
    const ValueId dtable = result_of(loss.dtable);
    const auto& users = users_[at(dtable)];
    return !is_result(dtable) && users.size() == 1 && node(users[0]).op == Op::cast &&
           graph_.value(node(users[0]).results[0]).dtype == DType::float32 && !is_sum(dtable);
  }

  Graph fused_alone(const Loss& loss) const {
    Graph made = graph_;
    Node& whole = made.nodes[at(loss.entropy)];
    const Node& scores = node(loss.scores);
    whole.op = Op::vocab_loss;
    whole.operands = {scores.operands[0], scores.operands[1], whole.operands[1], whole.operands[2]};
    whole.attributes = graph::VocabLossOf{std::get<graph::CrossEntropyOf>(whole.attributes).z_loss, loss.by_token};
    return graph::without_dead_nodes(std::move(made));
  }

  // The fused loss takes the place of the gradient; nodes before it that need the loss move to just after it.
  Graph fused(const Loss& loss) const {
    Graph made = graph_;
    const auto like = [&](ValueId id, DType dtype) {
      graph::Value value = graph_.value(id);
      value.dtype = dtype;
      return graph::add_value(made, std::move(value));
    };
    const Node& scores = node(loss.scores);
    const Node& gradient = node(loss.gradient);
    const ValueId sum = node(loss.entropy).results[0], dx = result_of(loss.dx), dtable = result_of(loss.dtable);
    const DType dtype = graph_.value(dtable).dtype, wide = wide_of(dtype);
    std::map<ValueId, ValueId> stand_ins{{sum, like(sum, graph_.value(sum).dtype)}, {dx, like(dx, graph_.value(dx).dtype)}};
    const ValueId wide_dtable = like(dtable, wide);
    Node whole{Op::vocab_loss,
               gradient.path,
               "",
               {scores.operands[0], scores.operands[1], gradient.operands[1], gradient.operands[2], gradient.operands[3]},
               {stand_ins[sum], stand_ins[dx], wide_dtable},
               graph::VocabLossOf{std::get<graph::CrossEntropyOf>(gradient.attributes).z_loss, loss.by_token},
               gradient.phase};
    std::vector<Node> behind{std::move(whole)};
    if (dtype == wide) {
      stand_ins[dtable] = wide_dtable;
    } else if (is_wanted_wide(loss)) {
      stand_ins[node(users_[at(dtable)][0]).results[0]] = wide_dtable;
    } else {
      stand_ins[dtable] = like(dtable, dtype);
      behind.push_back({Op::cast, node(loss.dtable).path, "", {wide_dtable}, {stand_ins[dtable]}, {}, node(loss.dtable).phase});
    }
    place(made, loss, std::move(behind));
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
std::optional<Graph> fused_anywhere(const Graph& graph) {
  std::optional<Graph> made;
  for (std::size_t i = 0; !made && i < graph.nodes.size(); ++i) {
    if (graph.nodes[i].op == Op::cross_entropy) made = Fusion(graph).run(static_cast<NodeId>(i));
    const auto* repeat = std::get_if<graph::RepeatOf>(&graph.nodes[i].attributes);
    std::optional<Graph> body = repeat == nullptr ? std::nullopt : fused_anywhere(*repeat->body);
    if (!body) continue;
    made = graph;
    graph::replace_body(std::get<graph::RepeatOf>(made->nodes[i].attributes), *std::move(body));
  }
  return made;
}

}  // namespace

Graph with_loss_fused(Graph graph) {
  while (std::optional<Graph> made = fused_anywhere(graph)) graph = *std::move(made);
  return graph;
}

}  // namespace moesh::partition
