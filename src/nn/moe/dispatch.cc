#include "nn/moe/dispatch.h"

namespace moesh::nn {
namespace {

bool exchanges(const Placement& place) {
  return !place.moe.ring && place.experts.members > 1 && place.tokens.axes == place.experts.axes;
}

Tensor index_of(Builder& builder, const Placement& place) {
  return place.experts.members > 1 ? graph::device_index(builder, place.experts) : Tensor{};
}

// Room for rows on a device, by the reference's bound: an even load of the devices that the experts are sharded over, times the factor; 0:
// no limit.
std::int64_t row_limit(const Placement& place, std::int64_t tokens) {
  if (place.moe.buffer_factor <= 0 || (!place.moe.ring && place.experts.members == 1)) return 0;
  const std::int64_t even = tokens * place.tokens.members / place.experts.members * place.moe.experts_per_token;
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(static_cast<double>(even) * place.moe.buffer_factor));
}

// The group for a value with one row per choice rather than per token.
graph::GroupOf by_choice(graph::GroupOf group) {
  group.choices = 1;
  return group;
}

Tensor flat(Tensor weights_TK) { return reshape(weights_TK, {weights_TK.size(0) * weights_TK.size(1)}); }

Tensor weighted(Tensor rows_RM, Tensor weights_R) { return multiply(rows_RM, broadcast(weights_R, rows_RM.shape(), {0})); }

// Rows are weighted once: on their way to the experts or on their way back.
struct RowWeights {
  Tensor of_rows_R;
  bool are_of_inputs;

  Tensor on_the_way_in(Tensor rows_RM) const { return are_of_inputs ? weighted(rows_RM, of_rows_R) : rows_RM; }
  Tensor on_the_way_back() const { return are_of_inputs ? Tensor{} : of_rows_R; }
};

}  // namespace

Dispatched ring(Builder& builder, const Placement& place, Tensor ids_TK, Tensor weights_TK) {
  const std::int64_t tokens = ids_TK.size(0);
  graph::GroupOf group = place.tokens;
  group.choices = ids_TK.size(1);
  group.experts = place.moe.experts;
  group.experts_here = place.experts_here;
  const graph::SortedSlots slots = graph::sort_slots(graph::gather(ids_TK, group), index_of(builder, place),
                                                     place.experts_here, row_limit(place, tokens));
  const RowWeights weights{graph::fetch_rows(flat(weights_TK), slots, by_choice(group)), place.moe.weights_inputs};
  return {slots.sizes_E, slots.dropped, [=](Tensor x_TM) { return weights.on_the_way_in(graph::fetch_rows(x_TM, slots, group)); },
          [=](Tensor rows_RM) { return graph::return_rows(rows_RM, slots, weights.on_the_way_back(), tokens, group); }};
}

Dispatched all_to_all(Builder& builder, const Placement& place, Tensor ids_TK, Tensor weights_TK) {
  const std::int64_t tokens = ids_TK.size(0);
  const std::int64_t choices = ids_TK.size(1);
  graph::GroupOf own;  // a group of this device only
  own.choices = choices;
  const std::int64_t experts = place.experts_here * place.experts.members;
  const graph::SortedSlots slots = graph::sort_slots(ids_TK, {}, experts, 0);
  const std::int64_t worst = tokens * place.experts.members * std::min(choices, place.experts_here);
  const Tensor counts = reshape(graph::gather(slots.sizes_E, place.experts), {place.experts.members, experts});
  const graph::Exchange exchange =
      graph::plan_exchange(counts, index_of(builder, place), place.experts_here,
                           place.experts, slots.order_R.size(0), worst, row_limit(place, tokens));
  const RowWeights weights{graph::fetch_rows(flat(weights_TK), slots, by_choice(own)), place.moe.weights_inputs};
  return {exchange.sizes_E, exchange.dropped,
          [=](Tensor x_TM) { return graph::exchange_rows(weights.on_the_way_in(graph::fetch_rows(x_TM, slots, own)), exchange); },
          [=](Tensor rows_RM) {
            return graph::return_rows(graph::exchange_back(rows_RM, exchange), slots, weights.on_the_way_back(), tokens, own);
          }};
}

sharding::Dispatch strategy_of(const Placement& place) {
  if (exchanges(place)) return sharding::Dispatch::all_to_all;
  return place.tokens.members > 1 ? sharding::Dispatch::ring : sharding::Dispatch::local;
}

Dispatched dispatch(Builder& builder, const Placement& place, Tensor ids_TK, Tensor weights_TK) {
  return exchanges(place) ? all_to_all(builder, place, ids_TK, weights_TK) : ring(builder, place, ids_TK, weights_TK);
}

}  // namespace moesh::nn
