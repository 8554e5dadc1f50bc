#include "partition/expand.h"

#include <map>
#include <numeric>

#include "base/place.h"
#include "graph/builder.h"
#include "graph/rewrite.h"
#include "partition/split_region.h"

namespace moesh::partition {
namespace {

using graph::Graph;
using graph::Node;
using graph::Op;
using graph::Tensor;
using graph::ValueId;

class Expansion {
 public:
  // `inputs`: the layouts of the graph's inputs, as far as they are known.
  Expansion(const Graph& graph, const std::vector<Want>& results, const std::vector<Want>& inputs, const PartitionRequest& request)
      : graph_(graph),
        request_(request),
        wants_(find_wants(graph, results, request)),
        given_(graph.values.size()),
        tensors_(graph.values.size()) {
    const std::vector<ValueId> ids = graph::inputs_of(graph);
    for (std::size_t i = 0; i < inputs.size(); ++i) given_[at(ids[i])] = inputs[i];
  }

  Graph run() {
    for (const Node& node : graph_.nodes) {
      builder_.stand_in_for(node);
      const std::vector<Tensor> made = make(node);
      for (std::size_t i = 0; i < made.size(); ++i) tensors_[at(node.results[i])] = made[i];
    }
    for (const ValueId id : graph_.results) builder_.mark_result(tensors_[at(id)]);
    Graph expanded = builder_.take();
    expanded.result_names = graph_.result_names;
    return expanded;
  }

  // The layout of a value, as far as it can be told before the partitioner has run.
  Want known(ValueId id) const {
    const Node& producer = graph_.producer_of(id);
    if (producer.op == Op::constraint) return spec_of(graph_, producer, request_);
    if (producer.op == Op::input && given_[at(id)]) return given_[at(id)];
    if (wants_[at(id)]) return wants_[at(id)];
    return producer.op == Op::cast ? known(producer.operands[0]) : given_[at(id)];
  }

 private:
  sharding::AxisList axes_of(ValueId id, std::size_t dim) const {
    const Want spec = known(id);
    return spec ? spec->dims[dim] : sharding::AxisList{};
  }
  sharding::AxisList last_axes(ValueId id) const { return axes_of(id, graph_.value(id).shape.size() - 1); }

  // How many pieces of equal size shards over these axes make: with shards of other sizes a value is gathered first.
  std::int64_t equal_pieces(std::int64_t size, const sharding::AxisList& axes) const {
    return std::gcd(size, sharding::shards(axes, request_.mesh));
  }

  std::vector<Tensor> operands_of(const Node& node) const {
    std::vector<Tensor> operands;
    for (const ValueId id : node.operands) operands.push_back(tensors_[at(id)]);
    return operands;
  }

  std::vector<Tensor> copy(const Node& node, const std::vector<Tensor>& operands, graph::Attributes attributes) {
    return copy(node, node.op, operands, std::move(attributes));
  }
  std::vector<Tensor> copy(const Node& node, Op op, const std::vector<Tensor>& operands, graph::Attributes attributes) {
    return builder_.add(op, "", operands, std::move(attributes), graph::results_of(graph_, node));
  }

  std::vector<Tensor> make(const Node& node) {
    const std::vector<Tensor> operands = operands_of(node);
    switch (node.op) {
      case Op::attention:
      case Op::attention_grad: return copy(node, with_keys_tokens(node, operands), node.attributes);
      case Op::rms_norm:
      case Op::rms_norm_grad: {
        if (last_axes(node.operands[0]).empty()) break;
        return norm_of_dots(node, operands);
      }
      case Op::highest: return {highest_of_shards(node, operands[0])};
      case Op::cross_entropy: {
        if (last_axes(node.operands[0]).empty()) break;
        const std::vector<Tensor> scores = scores_of(node, operands);
        return builder_.add(Op::cross_entropy_of_scores, "", {scores[0], scores[1], operands[2]}, node.attributes,
                            graph::results_of(graph_, node));
      }
      case Op::cross_entropy_grad: {
        if (last_axes(node.operands[0]).empty()) break;
        std::vector<Tensor> all = operands;
        all.push_back(scores_of(node, operands)[1]);
        return copy(node, all, node.attributes);
      }
      case Op::repeat: return copy(node, operands, repeat_of(node));
      case Op::region: return copy(node, operands, split_region(std::get<graph::RegionOf>(node.attributes)));
      default: break;
    }
    return copy(node, operands, node.attributes);
  }

  // The body is given slices of what is known here, and stacks what is known there: so a backward pass knows what was saved for it.
  graph::RepeatOf repeat_of(const Node& node) {
    graph::RepeatOf of = std::get<graph::RepeatOf>(node.attributes);
    const std::vector<Want> carried = carried_wants(node, request_);
    std::vector<Want> inputs = carried;
    const std::size_t sliced_from = carried.size() + static_cast<std::size_t>(of.shared);
    for (std::size_t i = carried.size(); i < node.operands.size(); ++i) {
      Want spec = known(node.operands[i]);
      if (spec && i >= sliced_from) spec = without_dims(*spec, of.slices[i - sliced_from], of.sizes.size());
      inputs.push_back(std::move(spec));
    }
    Expansion inside(*of.body, carried, inputs, request_);
    auto body = std::make_shared<const Graph>(inside.run());
    for (std::size_t i = carried.size(); i < node.results.size(); ++i) {
      const Want spec = inside.known(of.body->results[i]);
      if (spec) given_[at(node.results[i])] = with_dims(*spec, of.stacks[i - carried.size()], of.sizes.size());
    }
    of.body = std::move(body);
    return of;
  }

  std::vector<Tensor> norm_of_dots(const Node& node, std::vector<Tensor> operands) {
    const Tensor x = operands[0];
    Shape rows = x.shape();
    rows.pop_back();
    const auto dot = [&](const std::vector<Tensor>& of) { return builder_.add_one(Op::row_dot, "dot", of, {}, rows, wide_of(x.dtype())); };
    const bool is_gradient = node.op == Op::rms_norm_grad;
    const Tensor scale = operands[1];
    operands.push_back(dot({x, x}));
    if (is_gradient) operands.push_back(dot({x, operands[2], scale}));
    graph::RmsNormOf of = std::get<graph::RmsNormOf>(node.attributes);
    of.width = x.shape().back();
    return copy(node, is_gradient ? Op::rms_norm_grad_of_dots : Op::rms_norm_of_dots, operands, of);
  }

  // Scores of queries that are sharded: each device finds the highest of its own first.
  Tensor highest_of_shards(const Node& node, Tensor x) {
    const Node& producer = graph_.producer_of(node.operands[0]);
    const ValueId laid = producer.op == Op::attention ? producer.operands[0] : node.operands[0];
    Shape pieces = graph_.value(node.results[0]).shape;
    const Shape wanted = pieces;
    for (const std::size_t dim : {0u, 1u}) {
      if (pieces[dim] == 1) pieces[dim] = equal_pieces(x.shape()[dim], axes_of(laid, dim));
    }
    if (pieces != wanted) x = builder_.add_one(Op::highest, "of_shards", {x}, {}, pieces, x.dtype());
    return builder_.add_one(Op::highest, "", {x}, {}, wanted, x.dtype());
  }

  // query, key, value, order, segments, then order and segments of the keys.
  static std::vector<Tensor> with_keys_tokens(const Node& node, std::vector<Tensor> operands) {
    const bool is_sparse = std::get<graph::AttentionOf>(node.attributes).is_sparse;
    const std::size_t forward = operands.size() - (node.op == Op::attention_grad ? 1 : 0) - (is_sparse ? 1 : 0);
    if (forward < 7) operands.insert(operands.begin() + 5, {operands[3], operands[4]});
    return operands;
  }

  // The loss and its gradient share the scores.
  std::vector<Tensor> scores_of(const Node& node, const std::vector<Tensor>& operands) {
    std::vector<Tensor>& made = scores_[{node.operands[0], node.operands[1]}];
    if (!made.empty()) return made;
    const Tensor logits = operands[0];
    const DType dtype = wide_of(logits.dtype());
    const std::int64_t pieces = equal_pieces(logits.shape().back(), last_axes(node.operands[0]));
    const Shape tokens{logits.size(0), logits.size(1)};
    made = builder_.add(Op::vocab_scores, "scores", {logits, operands[1]}, {},
                        {{tokens, dtype}, {{tokens[0], tokens[1], pieces}, dtype}});
    return made;
  }

  const Graph& graph_;
  const PartitionRequest& request_;
  std::vector<Want> wants_;
  std::vector<Want> given_;  // of inputs and of what repeats stack
  std::vector<Tensor> tensors_;
  std::map<std::pair<ValueId, ValueId>, std::vector<Tensor>> scores_;  // by logits and targets
  graph::Builder builder_;
};

}  // namespace

Graph expand(const Graph& graph, const std::vector<Want>& results, const PartitionRequest& request) {
  return Expansion(graph, results, {}, request).run();
}

}  // namespace moesh::partition
