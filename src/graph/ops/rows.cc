// Ops of regions: collectives, and rows on their way to experts and back.
// Shape suffixes: T tokens here, K choices a token, R rows sorted by expert, E experts.
#include "graph/counted_rows.h"
#include "graph/ops/ops.h"
#include "graph/ops/table.h"

namespace moesh::graph::ops {
namespace {

bool is_scalar(const Value& value) { return value.shape.empty(); }

bool are_counts(const Value& value) { return value.shape.size() == 1 && value.dtype == DType::int32; }

// Whether type and dims are the same except for the first dim.
bool alike_but_rows(const Value& a, const Value& b) {
  return !a.shape.empty() && !b.shape.empty() && a.dtype == b.dtype &&
         Shape(a.shape.begin() + 1, a.shape.end()) == Shape(b.shape.begin() + 1, b.shape.end());
}

std::string device_index_shapes(const NodeView& v) { return is_scalar(v.result(0)) ? "" : "an index"; }

bool is_whole_of(std::int64_t whole, std::int64_t part, std::int64_t members) {
  return members > 0 && whole % members == 0 && whole / members == part;
}

std::string gather_shapes(const NodeView& v) {
  const bool fits = alike_but_rows(v.operand(0), v.result(0)) &&
                    is_whole_of(v.result(0).shape[0], v.operand(0).shape[0], v.of<GroupOf>().members);
  return fits ? "" : "a gather over the devices of a group";
}

std::string same_value(const NodeView& v) { return all_like(v, v.operand(0)) ? "" : "a value of a group's devices"; }

std::vector<Tensor> own_once_gradient(const Vjp& v) {
  return {v.builder.add_one(Op::own_once, "", {v.dy()}, v.of<GroupOf>(), v.operands[0].shape(), v.operands[0].dtype())};
}

std::string sort_slots_shapes(const NodeView& v) {
  const bool fits = (v.operands() == 1 || is_scalar(v.operand(1))) && v.operand(0).shape.size() == 2 &&
                    are_counts(v.result(0)) && are_counts(v.result(1)) && is_scalar(v.result(2));
  return fits ? "" : "ids [T, K]";
}

// Whether `tokens` [T, ...] and their `rows` [R, ...] fit two operands: an order [R] of choices, and the experts' sizes [E].
bool are_rows_in_order(const NodeView& v, const Value& rows, const Value& tokens, std::size_t order = 1) {
  return alike_but_rows(rows, tokens) && v.operand(order).shape == Shape{rows.shape[0]} && are_counts(v.operand(order)) &&
         are_counts(v.operand(order + 1));
}

std::string fetch_rows_shapes(const NodeView& v) {
  return are_rows_in_order(v, v.result(0), v.operand(0)) ? "" : "tokens, an order of their choices and sizes";
}

std::vector<Tensor> fetch_rows_gradient(const Vjp& v) {
  return {v.builder.add_one(Op::return_rows, "", {v.dy(), v.operands[1], v.operands[2]}, v.of<GroupOf>(),
                            v.operands[0].shape(), v.operands[0].dtype()),
          {},
          {}};
}

std::string return_rows_shapes(const NodeView& v) {
  const bool fits = (v.operands() == 3 || v.operand(3).shape == v.operand(1).shape) &&
                    are_rows_in_order(v, v.operand(0), v.result(0));
  return fits ? "" : "rows, the order of their choices and sizes";
}

std::vector<Tensor> return_rows_gradient(const Vjp& v) {
  const Tensor& rows = v.operands[0];
  const Tensor drows = v.builder.add_one(Op::fetch_rows, "", {v.dy(), v.operands[1], v.operands[2]}, v.of<GroupOf>(),
                                         rows.shape(), rows.dtype());
  if (v.operands.size() == 3) return {drows, {}, {}};
  const Tensor& weights = v.operands[3];
  const std::vector<Tensor> made = v.builder.add(Op::weighted_rows_grad, "", {rows, weights, drows}, {},
                                                 {{rows.shape(), rows.dtype()}, {weights.shape(), weights.dtype()}});
  return {made[0], {}, {}, made[1]};
}

bool are_weighted_rows(const NodeView& v) {
  return v.operand(0).shape.size() == 2 && v.operand(1).shape == Shape{v.operand(0).shape[0]} && is_like(v.operand(0), v.result(0)) &&
         is_like(v.operand(1), v.result(1));
}

std::string weighted_rows_grad_shapes(const NodeView& v) {
  return are_weighted_rows(v) && v.operand(0).shape == v.operand(2).shape ? "" : "rows, their weights and the rows' cotangents";
}

std::string fetched_rows_grad_shapes(const NodeView& v) {
  const bool fits = are_weighted_rows(v) && are_rows_in_order(v, v.operand(0), v.operand(2), 3);
  return fits ? "" : "rows, their weights, the tokens' cotangents, an order of their choices and sizes";
}

std::string plan_exchange_shapes(const NodeView& v) {
  const bool fits = v.operand(0).shape.size() == 2 && is_scalar(v.operand(1)) && is_like(v.operand(0), v.result(0)) &&
                    are_counts(v.result(1)) && is_scalar(v.result(2));
  return fits ? "" : "counts of each device for each expert, and an index";
}

std::string exchange_rows_shapes(const NodeView& v) {
  const bool fits = alike_but_rows(v.operand(0), v.result(0)) && v.operand(1).shape.size() == 2 &&
                    v.operand(2).shape == v.operand(1).shape && are_counts(v.operand(3));
  return fits ? "" : "rows, their counts, those that are kept and the experts' sizes";
}

std::vector<Tensor> exchange_rows_gradient(const Vjp& v) {
  GroupOf other_way = v.of<GroupOf>();
  other_way.back = !other_way.back;
  return {v.builder.add_one(Op::exchange_rows, "", {v.dy(), v.operands[1], v.operands[2], v.operands[3]}, other_way,
                            v.operands[0].shape(), v.operands[0].dtype()),
          {},
          {},
          {}};
}

// Results are lists [P] for the tokens that have rows, and a list [R] of all rows by token.
std::string list_tokens_shapes(const NodeView& v) {
  const bool fits = are_counts(v.operand(0)) && are_counts(v.operand(1)) && are_counts(v.result(0)) &&
                    is_like(v.result(0), v.result(1)) && is_like(v.operand(0), v.result(2)) && is_scalar(v.result(3));
  return fits ? "" : "an order of choices and sizes";
}

std::string sum_rows_shapes(const NodeView& v) {
  const bool fits = alike_but_rows(v.operand(0), v.result(0)) && v.operand(1).shape == Shape{v.operand(0).shape[0]} &&
                    v.operand(2).shape == Shape{v.result(0).shape[0]} && is_scalar(v.operand(3)) &&
                    (v.operands() == 4 || v.operand(4).shape == v.operand(1).shape);
  return fits ? "" : "rows, and how they belong to tokens";
}

std::string scatter_rows_shapes(const NodeView& v) {
  const bool fits = alike_but_rows(v.operand(0), v.result(0)) && v.operand(1).shape == Shape{v.operand(0).shape[0]} &&
                    is_scalar(v.operand(2));
  return fits ? "" : "sums, their tokens and how many they are";
}

bool weighted_rows_grad_lies_in(std::size_t operand, std::size_t) { return operand != 1; }

void weighted_rows_grad_counted(const Node& node, SameRows& same) {
  for (const ValueId id : {node.operands[1], node.operands[2], node.results[0], node.results[1]}) same.join(node.operands[0], id);
}

bool fetched_rows_grad_lies_in(std::size_t operand, std::size_t) { return operand == 0; }

void fetched_rows_grad_counted(const Node& node, SameRows& same) {
  for (const ValueId id : {node.operands[1], node.results[0], node.results[1]}) same.join(node.operands[0], id);
  same.count(node.operands[0], node.operands[4]);
}

void fetch_rows_counted(const Node& node, SameRows& same) { same.count(node.results[0], node.operands[2]); }

void return_rows_counted(const Node& node, SameRows& same) {
  same.count(node.operands[0], node.operands[2]);
  if (node.operands.size() > 3) same.join(node.operands[0], node.operands[3]);
}

void list_tokens_counted(const Node& node, SameRows& same) { same.count(node.results[2], node.operands[1]); }

void sum_rows_counted(const Node& node, SameRows& same) {
  same.join(node.operands[0], node.operands[1]);
  if (node.operands.size() > 4) same.join(node.operands[0], node.operands[4]);
  same.count(node.results[0], node.operands[3]);
}

void scatter_rows_counted(const Node& node, SameRows& same) { same.count(node.operands[0], node.operands[2]); }

void exchange_rows_counted(const Node& node, SameRows& same) {
  same.count(std::get<GroupOf>(node.attributes).back ? node.operands[0] : node.results[0], node.operands[3]);
}

}  // namespace

const OpFacts kDeviceIndex{.name = "device_index",
                           .attributes = blank<GroupOf>,
                           .takes = {0},
                           .gives = {1},
                           .shapes = device_index_shapes,
                           .factors = kNotSpread,
                           .gradient = kNoGradient};
const OpFacts kGather{.name = "gather",
                      .attributes = blank<GroupOf>,
                      .takes = {1},
                      .gives = {1},
                      .shapes = gather_shapes,
                      .factors = kNotSpread,
                      .gradient = kNoGradient,
                      .collective = ReshardOf::Kind::all_gather};
const OpFacts kAllSum{.name = "all_sum",
                      .attributes = blank<GroupOf>,
                      .takes = {1},
                      .gives = {1},
                      .shapes = same_value,
                      .factors = kNotSpread,
                      .gradient = kNoGradient,
                      .collective = ReshardOf::Kind::all_reduce};
const OpFacts kOwnOnce{.name = "own_once",
                       .attributes = blank<GroupOf>,
                       .takes = {1},
                       .gives = {1},
                       .shapes = same_value,
                       .factors = kNotSpread,
                       .gradient = own_once_gradient};
const OpFacts kSortSlots{.name = "sort_slots",
                         .attributes = blank<SortSlotsOf>,
                         .takes = {1, 2},
                         .gives = {3},
                         .shapes = sort_slots_shapes,
                         .factors = kNotSpread,
                         .gradient = kNoGradient,
                         .kernel = KernelKind::rows};
const OpFacts kFetchRows{.name = "fetch_rows",
                         .attributes = blank<GroupOf>,
                         .takes = {3},
                         .gives = {1},
                         .shapes = fetch_rows_shapes,
                         .factors = kNotSpread,
                         .gradient = fetch_rows_gradient,
                         .is_split = true,
                         .kernel = KernelKind::rows,
                         .looked_up = 0,
                         .rows = fetch_rows_counted};
const OpFacts kReturnRows{.name = "return_rows",
                          .attributes = blank<GroupOf>,
                          .takes = {3, 4},
                          .gives = {1},
                          .shapes = return_rows_shapes,
                          .factors = kNotSpread,
                          .gradient = return_rows_gradient,
                          .is_split = true,
                          .kernel = KernelKind::rows,
                          .rows = return_rows_counted};
const OpFacts kWeightedRowsGrad{.name = "weighted_rows_grad",
                                .attributes = blank<std::monostate>,
                                .takes = {3},
                                .gives = {2},
                                .shapes = weighted_rows_grad_shapes,
                                .factors = kNotSpread,
                                .gradient = kNoGradient,
                                .lies_in = weighted_rows_grad_lies_in,
                                .rows = weighted_rows_grad_counted};
const OpFacts kFetchedRowsGrad{.name = "fetched_rows_grad",
                               .attributes = blank<GroupOf>,
                               .takes = {5},
                               .gives = {2},
                               .shapes = fetched_rows_grad_shapes,
                               .factors = kNotSpread,
                               .gradient = kNoGradient,
                               .looked_up = 2,
                               .lies_in = fetched_rows_grad_lies_in,
                               .rows = fetched_rows_grad_counted};
const OpFacts kPlanExchange{.name = "plan_exchange",
                            .attributes = blank<SortSlotsOf>,
                            .takes = {2},
                            .gives = {3},
                            .shapes = plan_exchange_shapes,
                            .factors = kNotSpread,
                            .gradient = kNoGradient};
const OpFacts kExchangeRows{.name = "exchange_rows",
                            .attributes = blank<GroupOf>,
                            .takes = {4},
                            .gives = {1},
                            .shapes = exchange_rows_shapes,
                            .factors = kNotSpread,
                            .gradient = exchange_rows_gradient,
                            .collective = ReshardOf::Kind::all_to_all,
                            .is_ragged = true,
                            .rows = exchange_rows_counted};
const OpFacts kListTokens{.name = "list_tokens",
                          .attributes = blank<GroupOf>,
                          .takes = {2},
                          .gives = {4},
                          .shapes = list_tokens_shapes,
                          .factors = kNotSpread,
                          .gradient = kNoGradient,
                          .kernel = KernelKind::rows,
                          .rows = list_tokens_counted};
const OpFacts kSumRows{.name = "sum_rows",
                       .attributes = blank<std::monostate>,
                       .takes = {4, 5},
                       .gives = {1},
                       .shapes = sum_rows_shapes,
                       .factors = kNotSpread,
                       .gradient = kNoGradient,
                       .kernel = KernelKind::rows,
                       .rows = sum_rows_counted};
const OpFacts kScatterRows{.name = "scatter_rows",
                           .attributes = blank<GroupOf>,
                           .takes = {3},
                           .gives = {1},
                           .shapes = scatter_rows_shapes,
                           .factors = kNotSpread,
                           .gradient = kNoGradient,
                           .collective = ReshardOf::Kind::reduce_scatter,
                           .is_ragged = true,
                           .rows = scatter_rows_counted};

}  // namespace moesh::graph::ops
