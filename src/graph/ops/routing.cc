// Which experts a token goes to, and with what weight.
// Shape suffixes: B rows, S length, E experts, K experts a token.
#include "graph/ops/ops.h"
#include "graph/ops/table.h"

namespace moesh::graph::ops {
namespace {

bool has_tokens(const Value& value, const Shape& like) {
  return value.shape.size() == 3 && like.size() == 3 && first_sizes(value.shape, 2) == first_sizes(like, 2);
}

bool all_have_tokens(const NodeView& v) {
  for (std::size_t i = 0; i < v.operands(); ++i) {
    if (!has_tokens(v.operand(i), v.operand(0).shape)) return false;
  }
  for (std::size_t i = 0; i < v.results(); ++i) {
    if (!has_tokens(v.result(i), v.operand(0).shape)) return false;
  }
  return true;
}

// Each token is independent of the others; its last dim, of experts or choices, stays whole.
void per_token(const NodeView& v, FactorTable& table) { table.alike(table.own_but(v.operand(0).shape, {2})); }

std::string random_scores_shapes(const NodeView& v) {
  const Shape& tokens = v.operand(1).shape;
  const bool fits = v.operand(0).shape == Shape{2} && tokens.size() == 2 &&
                    v.result(0).shape == Shape{tokens[0], tokens[1], v.of<DrawOf>().experts};
  return fits ? "" : "a key [2] and the tokens' numbers [B, S]";
}

void random_scores_factors(const NodeView& v, FactorTable& table) {
  const std::vector<int> tokens = table.own(v.operand(1).shape);
  table.takes({kWhole}).takes(tokens).gives({tokens[0], tokens[1], kWhole});
}

std::string top_k_shapes(const NodeView& v) {
  const std::int64_t k = v.of<TopKOf>().k;
  const bool fits =
      all_have_tokens(v) && v.result(0).shape[2] == k && v.result(1).shape[2] == k && v.result(1).dtype == DType::int32;
  return fits ? "" : "scores [B, S, E]";
}

// If there are two operands, the weights come from the second and the first only chooses.
std::vector<Tensor> top_k_gradient(const Vjp& v) {
  std::vector<Tensor> made(v.operands.size());
  made.back() = v.grad(Op::top_k_grad, {v.operands.back(), v.results[1], v.dy()}, {v.operands.back()})[0];
  return made;
}

std::string top_k_grad_shapes(const NodeView& v) {
  const bool fits =
      all_have_tokens(v) && v.operand(1).shape == v.operand(2).shape && is_like(v.operand(0), v.result(0));
  return fits ? "" : "scores [B, S, E], ids [B, S, K] and the cotangents of their weights";
}

std::string give_experts_shapes(const NodeView& v) {
  const Shape &table = v.operand(0).shape, &tokens = v.operand(1).shape;
  const bool fits = table.size() == 2 && tokens.size() == 2 && is_floating(v.operand(0).dtype) && v.operand(1).dtype == DType::int32 &&
                    v.result(0).shape == Shape{tokens[0], tokens[1], table[1]} && v.result(0).dtype == DType::int32;
  return fits ? "" : "a table [V, K] and tokens [B, S]";
}

void give_experts_factors(const NodeView& v, FactorTable& table) {
  const std::vector<int> tokens = table.own(v.operand(1).shape);
  table.takes({kWhole, kWhole}).takes(tokens).gives({tokens[0], tokens[1], kWhole});
}

std::string weigh_shapes(const NodeView& v) {
  const Value &scores = v.operand(0), &ids = v.operand(1), &weights = v.result(0);
  const bool fits = all_have_tokens(v) && ids.dtype == DType::int32 && ids.shape[2] == v.of<TopKOf>().k && weights.shape == ids.shape &&
                    weights.dtype == scores.dtype;
  return fits ? "" : "scores [B, S, E] and ids [B, S, K]";
}

std::vector<Tensor> weigh_gradient(const Vjp& v) {
  return {v.grad(Op::top_k_grad, {v.operands[0], v.operands[1], v.dy()}, {v.operands[0]})[0], {}};
}

std::string spread_shapes(const NodeView& v) {
  const bool fits = all_have_tokens(v) && v.operand(0).shape == v.operand(1).shape &&
                    v.result(0).shape[2] == v.of<SpreadOf>().experts;
  return fits ? "" : "weights and ids [B, S, K]";
}

std::vector<Tensor> spread_gradient(const Vjp& v) {
  return {v.grad(Op::spread_grad, {v.operands[1], v.dy()}, {v.operands[0]})[0], {}};
}

std::string spread_grad_shapes(const NodeView& v) {
  const bool fits = all_have_tokens(v) && v.operand(0).shape == v.result(0).shape;
  return fits ? "" : "ids [B, S, K] and a cotangent [B, S, E]";
}

std::string expert_load_shapes(const NodeView& v) {
  const bool fits =
      v.operand(0).shape.size() == 3 && v.result(0).shape.size() == 2 && v.result(0).shape[0] == v.operand(0).shape[0];
  return fits ? "" : "ids [B, S, K]";
}

void expert_load_factors(const NodeView& v, FactorTable& table) {
  const std::vector<int> ids = table.own_but(v.operand(0).shape, {2});
  table.takes(ids).gives({ids[0], kWhole});
}

}  // namespace

const OpFacts kRandomScores{.name = "random_scores",
                            .attributes = blank<DrawOf>,
                            .takes = {2},
                            .gives = {1},
                            .shapes = random_scores_shapes,
                            .factors = random_scores_factors,
                            .gradient = kNoGradient};
const OpFacts kTopK{.name = "top_k",
                    .attributes = blank<TopKOf>,
                    .takes = {1, 2},
                    .gives = {2},
                    .shapes = top_k_shapes,
                    .factors = per_token,
                    .gradient = top_k_gradient,
                    .kernel = KernelKind::rows};
const OpFacts kTopKGrad{.name = "top_k_grad",
                        .attributes = blank<TopKOf>,
                        .takes = {3},
                        .gives = {1},
                        .shapes = top_k_grad_shapes,
                        .factors = per_token,
                        .gradient = kNoGradient,
                        .kernel = KernelKind::rows};
const OpFacts kGiveExperts{.name = "give_experts",
                           .attributes = blank<std::monostate>,
                           .takes = {2},
                           .gives = {1},
                           .shapes = give_experts_shapes,
                           .factors = give_experts_factors,
                           .gradient = nothing_flows_back,
                           .kernel = KernelKind::rows,
                           .looked_up = 0};
const OpFacts kWeigh{.name = "weigh",
                     .attributes = blank<TopKOf>,
                     .takes = {2},
                     .gives = {1},
                     .shapes = weigh_shapes,
                     .factors = per_token,
                     .gradient = weigh_gradient,
                     .kernel = KernelKind::rows};
const OpFacts kSpread{.name = "spread",
                      .attributes = blank<SpreadOf>,
                      .takes = {2},
                      .gives = {1},
                      .shapes = spread_shapes,
                      .factors = per_token,
                      .gradient = spread_gradient,
                      .kernel = KernelKind::rows};
const OpFacts kSpreadGrad{.name = "spread_grad",
                          .attributes = blank<SpreadOf>,
                          .takes = {2},
                          .gives = {1},
                          .shapes = spread_grad_shapes,
                          .factors = per_token,
                          .gradient = kNoGradient,
                          .kernel = KernelKind::rows};
const OpFacts kExpertLoad{.name = "expert_load",
                          .attributes = blank<std::monostate>,
                          .takes = {1},
                          .gives = {1},
                          .shapes = expert_load_shapes,
                          .factors = expert_load_factors,
                          .gradient = nothing_flows_back,
                          .kernel = KernelKind::rows};

}  // namespace moesh::graph::ops
