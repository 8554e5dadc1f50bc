// Elementwise ops.
#include <algorithm>

#include "graph/ops/ops.h"
#include "graph/ops/table.h"

namespace moesh::graph::ops {
namespace {

std::string unary_shapes(const NodeView& v) {
  return all_like(v, v.operand(0)) ? "" : std::string(name_of(v.of<UnaryOf>().function));
}

void unary_factors(const NodeView& v, FactorTable& table) {
  table.alike(table.own(v.result(0).shape));
  if (v.of<UnaryOf>().function == Unary::scale) table.linear_in({0});
}

std::vector<Tensor> unary_gradient(const Vjp& v) {
  const UnaryOf& of = v.of<UnaryOf>();
  if (of.function == Unary::scale) return {scale(v.dy(), of.a)};
  if (of.function == Unary::offset) return {v.dy()};
  return v.grad(Op::unary_grad, {v.operands[0], v.dy()}, {v.operands[0]});
}

std::string unary_grad_shapes(const NodeView& v) {
  return all_like(v, v.operand(0)) ? "" : "a value and its cotangent";
}

void unary_grad_factors(const NodeView& v, FactorTable& table) {
  table.alike(table.own(v.result(0).shape)).linear_in({1});
}

std::string binary_shapes(const NodeView& v) {
  return all_like(v, v.operand(0)) ? "" : std::string(name_of(v.of<BinaryOf>().function));
}

void binary_factors(const NodeView& v, FactorTable& table) {
  table.alike(table.own(v.result(0).shape));
  switch (v.of<BinaryOf>().function) {
    case Binary::add:
    case Binary::subtract: table.linear_together(); break;
    case Binary::multiply: table.linear_in({0, 1}); break;
    case Binary::divide: table.linear_in({0}); break;
  }
}

std::vector<Tensor> binary_gradient(const Vjp& v) {
  const Tensor& a = v.operands[0];
  const Tensor& b = v.operands[1];
  switch (v.of<BinaryOf>().function) {
    case Binary::add: return {v.dy(), v.dy()};
    case Binary::subtract: return {v.dy(), scale(v.dy(), -1)};
    case Binary::multiply: return {multiply(v.dy(), b), multiply(v.dy(), a)};
    case Binary::divide: {
      const Tensor by_b = binary(Binary::divide, v.dy(), b);
      return {by_b, scale(multiply(by_b, v.results[0]), -1)};
    }
  }
  return {};
}

// Numbers are cast to floats; no other casts have kernels.
std::string cast_shapes(const NodeView& v) {
  const bool are_numbers = v.operand(0).dtype != DType::boolean && is_floating(v.result(0).dtype);
  return v.operand(0).shape == v.result(0).shape && are_numbers ? "" : "a cast to floats";
}

// Terms that are each rounded to a narrower type do not add up to their rounded sum, so a cast that narrows is not linear.
void cast_factors(const NodeView& v, FactorTable& table) {
  table.alike(table.own(v.result(0).shape));
  if (size_of(v.result(0).dtype) >= size_of(v.operand(0).dtype)) table.linear_in({0});
}

std::vector<Tensor> cast_gradient(const Vjp& v) {
  if (!is_floating(v.operands[0].dtype())) return {{}};
  return {cast(v.dy(), v.operands[0].dtype())};
}

std::string chain_shapes(const NodeView& v) {
  std::vector<DType> dtypes;
  for (std::size_t i = 0; i < v.operands(); ++i) {
    if (v.operand(i).shape != v.result(0).shape) return "operands of the result's shape";
    dtypes.push_back(v.operand(i).dtype);
  }
  const ChainOf& chain = v.of<ChainOf>();
  const std::vector<ChainStep>& steps = chain.steps;
  if (steps.empty()) return "a step";
  for (const ChainStep& step : steps) {
    const bool takes_two = step.kind == ChainStep::Kind::unary_grad || step.kind == ChainStep::Kind::binary;
    if (step.operands.size() != (takes_two ? 2u : 1u)) return "steps with as many operands as they take";
    for (const int operand : step.operands) {
      if (operand < 0 || static_cast<std::size_t>(operand) >= dtypes.size()) return "steps that take operands or what steps before make";
      const DType dtype = dtypes[static_cast<std::size_t>(operand)];
      if (!is_floating(dtype) || !is_floating(step.dtype)) return "steps on floating numbers";
      if (step.kind != ChainStep::Kind::cast && dtype != step.dtype) return "steps on numbers of their type";
    }
    dtypes.push_back(step.dtype);
  }
  if (chain.result_count() != v.results()) return "a result for each step that makes one";
  for (std::size_t i = 0; i < v.results(); ++i) {
    if (chain.step_of(i) >= steps.size()) return "results that steps make";
    const auto end = chain.results.begin() + static_cast<std::ptrdiff_t>(std::min(i, chain.results.size()));
    if (std::find(chain.results.begin(), end, static_cast<int>(chain.step_of(i))) != end) return "results of steps of their own";
    const bool fits = v.result(i).shape == v.result(0).shape && v.result(i).dtype == steps[chain.step_of(i)].dtype;
    if (!fits) return "results of the type that their steps make";
  }
  return "";
}

void chain_factors(const NodeView& v, FactorTable& table) { table.alike(table.own(v.result(0).shape)); }

}  // namespace

const OpFacts kUnary{.name = "unary",
                     .attributes = blank<UnaryOf>,
                     .takes = {1},
                     .gives = {1},
                     .shapes = unary_shapes,
                     .factors = unary_factors,
                     .gradient = unary_gradient,
                     .keeps_dims = true,
                     .in_any_order = true,
                     .is_cheap = true,
                     .lies_in = over_any,
                     .rows = of_same_rows};
const OpFacts kUnaryGrad{.name = "unary_grad",
                         .attributes = blank<UnaryOf>,
                         .takes = {2},
                         .gives = {1},
                         .shapes = unary_grad_shapes,
                         .factors = unary_grad_factors,
                         .gradient = kNoGradient,
                         .keeps_dims = true,
                         .in_any_order = true,
                         .lies_in = over_any,
                         .rows = of_same_rows};
const OpFacts kBinary{.name = "binary",
                      .attributes = blank<BinaryOf>,
                      .takes = {2},
                      .gives = {1},
                      .shapes = binary_shapes,
                      .factors = binary_factors,
                      .gradient = binary_gradient,
                      .keeps_dims = true,
                      .in_any_order = true,
                      .is_cheap = true,
                      .lies_in = over_any,
                      .rows = of_same_rows};
const OpFacts kCast{.name = "cast",
                    .attributes = blank<std::monostate>,
                    .takes = {1},
                    .gives = {1},
                    .shapes = cast_shapes,
                    .factors = cast_factors,
                    .gradient = cast_gradient,
                    .keeps_dims = true,
                    .keeps_parameter = true,
                    .in_any_order = true,
                    .is_cheap = true,
                    .rows = of_same_rows};
const OpFacts kChain{.name = "chain",
                     .attributes = blank<ChainOf>,
                     .takes = {1, kMany},
                     .gives = {1, kMany},
                     .shapes = chain_shapes,
                     .factors = chain_factors,
                     .gradient = kNoGradient,
                     .keeps_dims = true,
                     .lies_in = over_any,
                     .rows = of_same_rows};

}  // namespace moesh::graph::ops
