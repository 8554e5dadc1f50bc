#include "graph/region.h"

#include <algorithm>
#include <cassert>

#include <fmt/core.h>

namespace moesh::graph {
namespace {

using sharding::AxisList;
using sharding::united;
using sharding::without;

[[maybe_unused]] bool has_axes_once(const sharding::Spec& spec) {
  const AxisList all = sharding::distinct_axes(spec);
  return std::adjacent_find(all.begin(), all.end()) == all.end();
}

}  // namespace

AxisList own_axes_of(const Graph& body, const Node& node) {
  AxisList all;
  for (const ValueId operand : node.operands) all = united(std::move(all), body.value(operand).spec.own);
  const auto* of = std::get_if<GroupOf>(&node.attributes);
  if (of == nullptr) return all;
  switch (node.op) {
    case Op::gather:
    case Op::all_sum: return without(all, of->axes);
    // The order names the devices' rows that are wanted; the rows themselves come from the whole group.
    case Op::fetch_rows:
      return united(without(body.value(node.operands[0]).spec.own, of->axes), body.value(node.operands[1]).spec.own);
    default: return united(std::move(all), of->axes);
  }
}

std::vector<Tensor> region(Builder& builder, const std::string& name, const RegionKind& kind,
                           const std::vector<RegionOperand>& operands, const mesh::Mesh& mesh, const RegionBody& build) {
  const Scope scope(builder, name);
  Builder inner = Builder::of_region(builder.path(""));
  RegionOf of{kind.strategy, nullptr, {}, {}, std::make_shared<const mesh::Mesh>(mesh), {}, kind.overlaps};
  std::vector<Tensor> outside;
  std::vector<Tensor> shards;
  for (const RegionOperand& operand : operands) {
    outside.push_back(operand.tensor);
    of.operands.push_back(operand.spec);
    shards.push_back(inner.shard_input(fmt::format("operand{}", shards.size()),
                                       sharding::shard_shape(operand.tensor.shape(), operand.spec, mesh),
                                       operand.tensor.dtype(), sharding::distinct_axes(operand.spec)));
  }
  std::vector<std::pair<Shape, DType>> results;
  for (const RegionResult& made : build(inner, shards)) {
    assert(has_axes_once(made.spec) && "an axis that shards a result is also one to add it up over");
    assert(without(inner.own_axes(made.local.id), sharding::distinct_axes(made.spec)).empty() &&
           "a result that differs more than it says");
    inner.mark_result(made.local);
    of.results.push_back(made.spec);
    results.emplace_back(made.shape, made.local.dtype());
  }
  of.body = std::make_shared<const Graph>(inner.take());
  return builder.add(Op::region, "", outside, of, results);
}

GroupOf group_of(const AxisList& axes, const mesh::Mesh& mesh) { return {axes, sharding::shards(axes, mesh)}; }

Tensor device_index(Builder& builder, const GroupOf& group) {
  return builder.add_one(Op::device_index, "index", {}, group, {}, DType::int32);
}

Tensor gather(Tensor x, const GroupOf& group) {
  if (group.members == 1) return x;
  Shape shape = x.shape();
  shape[0] *= group.members;
  return x.builder->add_one(Op::gather, "gather", {x}, group, shape, x.dtype());
}

Tensor all_sum(Tensor x, const mesh::Mesh& mesh, const AxisList& axes) {
  return axes.empty() ? x : x.builder->add_one(Op::all_sum, "", {x}, group_of(axes, mesh), x.shape(), x.dtype());
}

Tensor own_once(Tensor x, const GroupOf& group) {
  return group.members == 1 ? x : x.builder->add_one(Op::own_once, "once", {x}, group, x.shape(), x.dtype());
}

SortedSlots sort_slots(Tensor ids_TK, Tensor index, std::int64_t experts_here, std::int64_t limit) {
  // A token chooses an expert at most once.
  std::int64_t rows = ids_TK.size(0) * std::min(ids_TK.size(1), experts_here);
  if (limit > 0) rows = std::min(rows, limit);
  std::vector<Tensor> operands{ids_TK};
  if (index) operands.push_back(index);
  const std::vector<Tensor> made =
      ids_TK.builder->add(Op::sort_slots, "sort", operands, SortSlotsOf{limit},
                          {{{rows}, DType::int32}, {{experts_here}, DType::int32}, {{}, DType::int32}});
  return {made[0], made[1], made[2]};
}

Tensor fetch_rows(Tensor x, const SortedSlots& slots, const GroupOf& group) {
  Shape shape = x.shape();
  shape[0] = slots.order_R.size(0);
  return x.builder->add_one(Op::fetch_rows, "fetch", {x, slots.order_R, slots.sizes_E}, group, shape, x.dtype());
}

Tensor return_rows(Tensor rows, const SortedSlots& slots, Tensor weights_R, std::int64_t tokens, const GroupOf& group) {
  Shape shape = rows.shape();
  shape[0] = tokens;
  std::vector<Tensor> operands{rows, slots.order_R, slots.sizes_E};
  if (weights_R) operands.push_back(weights_R);
  return rows.builder->add_one(Op::return_rows, "return", operands, group, shape, rows.dtype());
}

ListedTokens list_tokens(Tensor order_R, Tensor sizes_E, GroupOf group, std::int64_t tokens) {
  group.axes.clear();  // this device only
  group.members = 1;
  const Shape room{std::min(order_R.size(0), tokens)};
  const std::vector<Tensor> made =
      order_R.builder->add(Op::list_tokens, "tokens", {order_R, sizes_E}, group,
                           {{room, DType::int32}, {room, DType::int32}, {order_R.shape(), DType::int32}, {{}, DType::int32}});
  return {made[0], made[1], made[2], made[3]};
}

Tensor sum_rows(Tensor rows, const ListedTokens& listed, Tensor weights_R) {
  Shape shape = rows.shape();
  shape[0] = listed.tokens_P.size(0);
  std::vector<Tensor> operands{rows, listed.rows_R, listed.ends_P, listed.count};
  if (weights_R) operands.push_back(weights_R);
  return rows.builder->add_one(Op::sum_rows, "sum", operands, {}, shape, rows.dtype());
}

Tensor scatter_rows(Tensor sums, const ListedTokens& listed, std::int64_t tokens, const GroupOf& group) {
  Shape shape = sums.shape();
  shape[0] = tokens;
  return sums.builder->add_one(Op::scatter_rows, "scatter", {sums, listed.tokens_P, listed.count}, group, shape, sums.dtype());
}

Exchange plan_exchange(Tensor counts, Tensor index, std::int64_t experts_here, const GroupOf& group, std::int64_t sent,
                       std::int64_t received, std::int64_t limit) {
  const std::vector<Tensor> made =
      counts.builder->add(Op::plan_exchange, "plan", {counts, index}, SortSlotsOf{limit},
                          {{counts.shape(), DType::int32}, {{experts_here}, DType::int32}, {{}, DType::int32}});
  return {counts, made[0], made[1], made[2], group, sent, limit > 0 ? std::min(limit, received) : received};
}

namespace {

Tensor exchanged(Tensor rows, const Exchange& e, bool back) {
  Shape shape = rows.shape();
  shape[0] = back ? e.sent : e.received;
  GroupOf group = e.group;
  group.back = back;
  return rows.builder->add_one(Op::exchange_rows, back ? "back" : "exchange", {rows, e.counts, e.kept, e.sizes_E}, group, shape,
                               rows.dtype());
}

}  // namespace

Tensor exchange_rows(Tensor rows, const Exchange& exchange) { return exchanged(rows, exchange, false); }
Tensor exchange_back(Tensor rows, const Exchange& exchange) { return exchanged(rows, exchange, true); }

}  // namespace moesh::graph
