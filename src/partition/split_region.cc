#include "partition/split_region.h"

#include <map>
#include <tuple>

#include "base/place.h"
#include "graph/facts.h"
#include "graph/region.h"
#include "graph/rewrite.h"

namespace moesh::partition {
namespace {

using graph::Graph;
using graph::GroupOf;
using graph::Node;
using graph::Op;
using graph::Tensor;
using graph::ValueId;

class Split {
 public:
  Split(const Graph& body, bool overlaps)
      : body_(body), overlaps_(overlaps), builder_(graph::Builder::of_region("")), tensors_(body.values.size()) {}

  Graph run() {
    for (const Node& node : body_.nodes) {
      builder_.stand_in_for(node);
      const std::vector<Tensor> made = make(node);
      for (std::size_t i = 0; i < made.size(); ++i) tensors_[at(node.results[i])] = made[i];
    }
    for (const ValueId id : body_.results) builder_.mark_result(tensors_[at(id)]);
    return builder_.take();
  }

 private:
  const Tensor& operand(const Node& node, std::size_t i) const { return tensors_[at(node.operands[i])]; }

  std::vector<Tensor> make(const Node& node) {
    const auto* group = std::get_if<GroupOf>(&node.attributes);
    const bool is_split = graph::facts_of(node.op).is_split && group->members > 1;
    if (is_split && node.op == Op::fetch_rows) return {fetch(node, *group)};
    if (is_split) return {give_back(node, *group)};
    if (node.op == Op::gather) return {known_or(node, *group)};
    if (overlaps_ && node.op == Op::weighted_rows_grad && comes_back(node.operands[0])) return gradients_apart(node);
    return copy(node);
  }

  std::vector<Tensor> copy(const Node& node) {
    if (node.op == Op::input) {
      const graph::Value& value = body_.value(node.results[0]);
      return {builder_.shard_input("", value.shape, value.dtype, value.spec.own)};
    }
    std::vector<Tensor> operands;
    for (std::size_t i = 0; i < node.operands.size(); ++i) operands.push_back(operand(node, i));
    return graph::copy_node(builder_, body_, node, operands, node.attributes);
  }

  bool comes_back(ValueId rows) const {
    const Node& producer = body_.producer_of(rows);
    return producer.op == Op::exchange_rows && std::get<GroupOf>(producer.attributes).back;
  }

  // The rows' gradient, which goes on to the experts, does not wait for the rows that come back from them for the weights' gradient.
  std::vector<Tensor> gradients_apart(const Node& node) {
    const Tensor rows = operand(node, 0), weights = operand(node, 1), dy = operand(node, 2);
    const DType wide = wide_of(dy.dtype());
    const Tensor drows = cast(multiply(cast(dy, wide), broadcast(cast(weights, wide), dy.shape(), {0})), dy.dtype());
    const Tensor dots = builder_.add_one(Op::row_dot, "dot", {dy, rows}, {}, weights.shape(), wide);
    return {drows, cast(dots, weights.dtype())};
  }

  Tensor gathered(Tensor x, const GroupOf& group) {
    Tensor& all = gathered_[{x.id, group.axes}];
    if (!all) all = graph::gather(x, {group.axes, group.members});
    return all;
  }

  // A gather that the body has already; a copy of it serves later ones of the same value and axes.
  Tensor known_or(const Node& node, const GroupOf& group) {
    Tensor& all = gathered_[{operand(node, 0).id, group.axes}];
    if (!all) all = copy(node).front();
    return all;
  }

  Tensor fetch(const Node& node, const GroupOf& group) {
    GroupOf own;  // a group of this device alone
    own.choices = group.choices;
    const graph::Value& rows = body_.value(node.results[0]);
    return builder_.add_one(Op::fetch_rows, "", {gathered(operand(node, 0), group), operand(node, 1), operand(node, 2)}, own,
                            rows.shape, rows.dtype);
  }

  Tensor give_back(const Node& node, const GroupOf& group) {
    const std::int64_t tokens = body_.value(node.results[0]).shape[0];
    const graph::ListedTokens& listed = listed_by(operand(node, 1), operand(node, 2), group, tokens * group.members);
    const Tensor weights = node.operands.size() == 4 ? operand(node, 3) : Tensor{};
    return graph::scatter_rows(graph::sum_rows(operand(node, 0), listed, weights), listed, tokens, group);
  }

  // All rows that are returned in the same order share one list of tokens.
  const graph::ListedTokens& listed_by(Tensor order, Tensor sizes, const GroupOf& group, std::int64_t tokens) {
    graph::ListedTokens& listed = listed_[{order.id, sizes.id, group.axes, group.choices}];
    if (!listed.count) listed = graph::list_tokens(order, sizes, group, tokens);
    return listed;
  }

  const Graph& body_;
  bool overlaps_;
  graph::Builder builder_;
  std::vector<Tensor> tensors_;
  std::map<std::pair<ValueId, sharding::AxisList>, Tensor> gathered_;
  std::map<std::tuple<ValueId, ValueId, sharding::AxisList, std::int64_t>, graph::ListedTokens> listed_;
};

}  // namespace

graph::RegionOf split_region(const graph::RegionOf& region) {
  graph::RegionOf split = region;
  split.body = std::make_shared<const Graph>(Split(*region.body, region.overlaps).run());
  split.saved.clear();
  return split;
}

}  // namespace moesh::partition
