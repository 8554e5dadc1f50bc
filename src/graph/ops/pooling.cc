// Keys that are made of several tokens each.
// Shape suffixes: B rows, S tokens, N windows, C what a window is made of.
#include "graph/pooling.h"

#include <algorithm>

#include "graph/ops/ops.h"
#include "graph/ops/table.h"

namespace moesh::graph::ops {
namespace {

std::string windows_shapes(const NodeView& v) {
  const Shape& tokens = v.operand(0).shape;
  const std::int64_t of_window = v.of<WindowsOf>().tokens;
  bool fits = tokens.size() == 2 && of_window > 0;
  for (std::size_t i = 0; i < v.operands() && fits; ++i) fits = v.operand(i).shape == tokens && v.operand(i).dtype == DType::int32;
  for (std::size_t i = 0; i < v.results() && fits; ++i) {
    const DType wanted = i == 3 ? DType::float32 : DType::int32;
    fits = v.result(i).shape == Shape{tokens[0], tokens[1] / of_window} && v.result(i).dtype == wanted;
  }
  return fits ? "" : "positions and segments [B, S], and four of windows [B, N]";
}

// A window may begin in the tokens of one device and end in those of the next, so a row is whole.
void windows_factors(const NodeView& v, FactorTable& table) { table.alike({table.factor(v.operand(0).shape[0]), kWhole}); }

// Whether `made` is the shape of pools of such values, and `gates` are gates of them.
bool are_pools(const Value& values, const Value& gates, const Value& made) {
  if (values.shape.size() < 3 || gates.shape != values.shape || !is_floating(values.dtype) || !is_floating(gates.dtype)) return false;
  Shape wanted = values.shape;
  wanted.erase(wanted.begin() + 2);
  return made.shape == wanted && made.dtype == values.dtype;
}

std::string pool_shapes(const NodeView& v) {
  return are_pools(v.operand(0), v.operand(1), v.result(0)) ? "" : "values and gates [B, N, C, ...], and pools [B, N, ...]";
}

std::string pool_grad_shapes(const NodeView& v) {
  const bool fits = are_pools(v.operand(0), v.operand(1), v.operand(2)) && is_like(v.operand(0), v.result(0)) &&
                    is_like(v.operand(1), v.result(1));
  return fits ? "" : "what pool takes, and its cotangent";
}

// The factors of values, and of pools: a window is whole.
std::pair<std::vector<int>, std::vector<int>> dims_of(const NodeView& v, FactorTable& table) {
  const std::vector<int> values = table.own_but(v.operand(0).shape, {2});
  std::vector<int> pools = values;
  pools.erase(pools.begin() + 2);
  return {values, pools};
}

void pool_factors(const NodeView& v, FactorTable& table) {
  const auto [values, pools] = dims_of(v, table);
  table.takes(values).takes(values).gives(pools).linear_in({0});
}

void pool_grad_factors(const NodeView& v, FactorTable& table) {
  const auto [values, pools] = dims_of(v, table);
  table.takes(values).takes(values).takes(pools).gives(values).gives(values).linear_in({2});
}

std::vector<Tensor> pool_gradient(const Vjp& v) {
  return v.grad(Op::pool_grad, {v.operands[0], v.operands[1], v.dy()}, {v.operands[0], v.operands[1]});
}

}  // namespace

const OpFacts kWindows{.name = "windows",
                       .attributes = blank<WindowsOf>,
                       .takes = {2},
                       .gives = {4},
                       .shapes = windows_shapes,
                       .factors = windows_factors,
                       .gradient = nothing_flows_back};
const OpFacts kPool{.name = "pool",
                    .attributes = blank<std::monostate>,
                    .takes = {2},
                    .gives = {1},
                    .shapes = pool_shapes,
                    .factors = pool_factors,
                    .gradient = pool_gradient,
                    .kernel = KernelKind::norm};
const OpFacts kPoolGrad{.name = "pool_grad",
                        .attributes = blank<std::monostate>,
                        .takes = {3},
                        .gives = {2},
                        .shapes = pool_grad_shapes,
                        .factors = pool_grad_factors,
                        .gradient = kNoGradient,
                        .kernel = KernelKind::norm};

}  // namespace moesh::graph::ops
