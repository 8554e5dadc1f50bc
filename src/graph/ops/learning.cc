// Norms of gradients, and updates of parameters.
#include "graph/ops/ops.h"
#include "graph/ops/table.h"

namespace moesh::graph::ops {
namespace {

std::string sum_squares_shapes(const NodeView& v) { return v.result(0).shape.empty() ? "" : "a sum of squares"; }

void sum_squares_factors(const NodeView& v, FactorTable& table) {
  table.takes(table.own(v.operand(0).shape)).gives({});
}

// At most this many results have the parameter's shape: the parameter and its moments.
constexpr std::size_t kMostUpdated = 3;

bool has_update_numbers(const NodeView& v) { return v.operand(v.operands() - 1).shape == Shape{kUpdateNumbers}; }

// Whether a parameter, its gradient and its moments have one shape; the last operand holds the step's numbers.
bool are_alike_but_last(const NodeView& v) {
  if (!has_update_numbers(v)) return false;
  for (std::size_t i = 0; i + 1 < v.operands(); ++i) {
    if (v.operand(i).shape != v.operand(0).shape) return false;
  }
  for (std::size_t i = 0; i < std::min(v.results(), kMostUpdated); ++i) {
    if (v.result(i).shape != v.operand(0).shape) return false;
  }
  return true;
}

std::string adam_update_shapes(const NodeView& v) {
  const bool fits = are_alike_but_last(v) && (v.results() == kMostUpdated || v.result(kMostUpdated).shape.empty());
  return fits ? "" : "a parameter, its gradient, mu, nu and the step's numbers, and perhaps a sum of squares";
}

std::string sgd_update_shapes(const NodeView& v) {
  return are_alike_but_last(v) ? "" : "a parameter, its direction and the step's numbers";
}

std::string momentum_update_shapes(const NodeView& v) {
  return are_alike_but_last(v) ? "" : "a gradient, its momentum and the step's numbers";
}

void update_factors(const NodeView& v, FactorTable& table) {
  const std::vector<int> dims = table.own(v.result(0).shape);
  for (std::size_t i = 0; i + 1 < v.operands(); ++i) table.takes(dims);
  table.takes({kWhole});
  for (std::size_t i = 0; i < v.results(); ++i) table.gives(i < kMostUpdated ? dims : std::vector<int>{});
}

std::string balance_update_shapes(const NodeView& v) {
  const Shape& bias = v.operand(0).shape;
  const Shape& load = v.operand(1).shape;
  const auto dim = static_cast<std::size_t>(v.of<BalanceOf>().experts_dim);
  const bool fits = dim < bias.size() && load.size() == 3 && load[2] == bias[dim] + 1 &&
                    load[1] * bias[dim] == elements(bias) && has_update_numbers(v) && is_like(v.operand(0), v.result(0));
  return fits ? "" : "a router's bias, its experts' load and the step's numbers";
}

// There are only a few numbers for each expert, so every device computes all of them.
void balance_update_factors(const NodeView& v, FactorTable& table) {
  const std::vector<int> whole(v.operand(0).shape.size(), kWhole);
  table.takes(whole).takes({kWhole, kWhole, kWhole}).takes({kWhole}).gives(whole);
}

std::string clip_update_shapes(const NodeView& v) {
  const auto& of = v.of<ClipOf>();
  const Shape& weight = v.operand(0).shape;
  const bool fits = !weight.empty() && of.halved <= weight.back() && are_dims_of(of.dims, weight.size() - 1) &&
                    picked(weight, of.dims) == v.operand(1).shape && v.operand(1).dtype == DType::float32 && has_update_numbers(v) &&
                    is_like(v.operand(0), v.result(0));
  return fits ? "" : "a weight, the highest scores of its heads and the step's numbers";
}

void clip_update_factors(const NodeView& v, FactorTable& table) {
  const Shape& weight = v.operand(0).shape;
  const std::vector<int> dims = table.own_but(weight, {static_cast<int>(weight.size()) - 1});
  table.takes(dims).takes(picked(dims, v.of<ClipOf>().dims)).takes({kWhole}).gives(dims);
}

}  // namespace

const OpFacts kSumSquares{.name = "sum_squares",
                          .attributes = blank<std::monostate>,
                          .takes = {1},
                          .gives = {1},
                          .shapes = sum_squares_shapes,
                          .factors = sum_squares_factors,
                          .gradient = kNoGradient};
const OpFacts kAdamUpdate{.name = "adam_update",
                          .attributes = blank<AdamOf>,
                          .takes = {5},
                          .gives = {3, 4},
                          .shapes = adam_update_shapes,
                          .factors = update_factors,
                          .gradient = kNoGradient,
                          .in_any_order = true,
                          .lies_in = over_any,
                          .applied = 1};
const OpFacts kSgdUpdate{.name = "sgd_update",
                         .attributes = blank<SgdOf>,
                         .takes = {3},
                         .gives = {1},
                         .shapes = sgd_update_shapes,
                         .factors = update_factors,
                         .gradient = kNoGradient,
                         .in_any_order = true,
                         .lies_in = over_any,
                         .applied = 1};
const OpFacts kMomentumUpdate{.name = "momentum_update",
                              .attributes = blank<MomentumOf>,
                              .takes = {3},
                              .gives = {2},
                              .shapes = momentum_update_shapes,
                              .factors = update_factors,
                              .gradient = kNoGradient,
                              .in_any_order = true,
                              .lies_in = over_any};
const OpFacts kBalanceUpdate{.name = "balance_update",
                             .attributes = blank<BalanceOf>,
                             .takes = {3},
                             .gives = {1},
                             .shapes = balance_update_shapes,
                             .factors = balance_update_factors,
                             .gradient = kNoGradient,
                             .lies_in = over_any};
const OpFacts kClipUpdate{.name = "clip_update",
                          .attributes = blank<ClipOf>,
                          .takes = {3},
                          .gives = {1},
                          .shapes = clip_update_shapes,
                          .factors = clip_update_factors,
                          .gradient = kNoGradient,
                          .in_any_order = true,
                          .lies_in = over_first};

}  // namespace moesh::graph::ops
