// Gated linear attention.
// Shape suffixes: B rows, S length, G heads of keys, R heads of values for each, D a key's width, V a value's width, W tokens of a window.
#include <algorithm>

#include "graph/delta_rule.h"
#include "graph/ops/ops.h"
#include "graph/ops/table.h"

namespace moesh::graph::ops {
namespace {

bool are_of_tokens(const Value& value, const Shape& x) { return value.shape == first_sizes(x, 2) && value.dtype == DType::int32; }

// Whether the first operands are x [B, S, ...] and weights [W, ...].
bool are_convolved(const NodeView& v) {
  const Shape &x = v.operand(0).shape, &weights = v.operand(1).shape;
  return x.size() >= 3 && weights.size() + 1 == x.size() && weights[0] > 0 && is_floating(v.operand(0).dtype) &&
         v.operand(1).dtype == v.operand(0).dtype && std::equal(weights.begin() + 1, weights.end(), x.begin() + 2);
}

std::string causal_conv_shapes(const NodeView& v) {
  const std::string wanted = "channels [B, S, ...], weights [W, ...] [, W - 1 inputs to begin with, order and segments]";
  if (!are_convolved(v) || !is_like(v.operand(0), v.result(0)) || v.results() != (v.operands() == 2 ? 1u : 2u)) return wanted;
  if (v.operands() == 2) return "";
  const Shape& x = v.operand(0).shape;
  Shape kept = x;
  kept[1] = v.operand(1).shape[0] - 1;
  const bool fits = v.operands() == 5 && v.operand(2).shape == kept && v.operand(2).dtype == v.operand(0).dtype &&
                    is_like(v.operand(2), v.result(1)) && are_of_tokens(v.operand(3), x) && are_of_tokens(v.operand(4), x);
  return fits ? "" : wanted;
}

std::string causal_conv_grad_shapes(const NodeView& v) {
  const bool fits = are_convolved(v) && is_like(v.operand(2), v.operand(0)) && is_like(v.operand(0), v.result(0)) &&
                    is_like(v.operand(1), v.result(1));
  return fits ? "" : "what causal_conv takes, and its cotangent";
}

// The factors of the weights, [W, channels], for those of x, [B, S, channels].
std::vector<int> of_window(std::vector<int> x) {
  x.erase(x.begin());
  x[0] = kWhole;
  return x;
}

// Rows and channels may be sharded; a row is whole.
void causal_conv_factors(const NodeView& v, FactorTable& table) {
  const std::vector<int> x = table.own_but(v.operand(0).shape, {1});
  table.takes(x).takes(of_window(x));
  if (v.operands() > 2) table.takes(x).takes({x[0], kWhole}).takes({x[0], kWhole});
  table.gives(x).linear_in({0, 1});
  if (v.results() > 1) table.gives(x);
}

void causal_conv_grad_factors(const NodeView& v, FactorTable& table) {
  const std::vector<int> x = table.own_but(v.operand(0).shape, {1});
  table.takes(x).takes(of_window(x)).takes(x).gives(x).gives(of_window(x)).linear_in({2});
}

std::vector<Tensor> causal_conv_gradient(const Vjp& v) {
  return v.grad(Op::causal_conv_grad, {v.operands[0], v.operands[1], v.dy()}, {v.operands[0], v.operands[1]});
}

// Whether the first operands are query, key, value, decay, rate and segments.
bool are_remembered(const NodeView& v) {
  const Shape &query = v.operand(0).shape, &value = v.operand(2).shape;
  const DType dtype = v.operand(0).dtype;
  if (query.size() != 4 || value.size() != 5 || !is_floating(dtype) || !is_like(v.operand(1), v.operand(0))) return false;
  const Shape of_heads = first_sizes(value, 4);
  return first_sizes(value, 3) == first_sizes(query, 3) && v.operand(2).dtype == dtype && v.operand(3).shape == of_heads &&
         v.operand(3).dtype == wide_of(dtype) && v.operand(4).shape == of_heads && v.operand(4).dtype == dtype &&
         are_of_tokens(v.operand(5), query);
}

std::string delta_rule_shapes(const NodeView& v) {
  const std::string wanted =
      "queries and keys [B, S, G, D], values [B, S, G, R, V], decays and rates [B, S, G, R], segments [B, S] [, a state and order]";
  if (!are_remembered(v) || !is_like(v.operand(2), v.result(0)) || v.results() != (v.operands() == 6 ? 1u : 2u)) return wanted;
  if (v.operands() == 6) return "";
  const Shape &query = v.operand(0).shape, &value = v.operand(2).shape;
  const bool fits = v.operands() == 8 && v.operand(6).shape == Shape{value[0], value[2], value[3], query[3], value[4]} &&
                    v.operand(6).dtype == wide_of(v.operand(0).dtype) && is_like(v.operand(6), v.result(1)) &&
                    are_of_tokens(v.operand(7), query);
  return fits ? "" : wanted;
}

std::string delta_rule_grad_shapes(const NodeView& v) {
  bool fits = are_remembered(v) && is_like(v.operand(6), v.operand(2));
  for (std::size_t i = 0; fits && i < 5; ++i) fits = is_like(v.operand(i), v.result(i));
  return fits ? "" : "what delta_rule takes, and its cotangent";
}

// A row is whole, and so are its keys. A device may have some heads of values of a head of keys, or a part of their width.
void spread_memory(const NodeView& v, bool backward, FactorTable& table) {
  const Shape &query = v.operand(0).shape, &value = v.operand(2).shape;
  const int b = table.factor(value[0]), g = table.factor(value[2]), r = table.factor(value[3]), w = table.factor(value[4]);
  const std::vector<int> keys{b, kWhole, g, kWhole}, values{b, kWhole, g, r, w}, heads{b, kWhole, g, r}, tokens{b, kWhole};
  table.takes(keys).takes(keys).takes(values).takes(heads).takes(heads).takes(tokens);
  if (backward) {
    table.takes(values).gives(keys).gives(keys).gives(values).gives(heads).gives(heads).linear_in({6});
  } else {
    const std::vector<int> state{b, g, r, kWhole, w};
    if (v.operands() > 6) table.takes(state).takes(tokens);
    table.gives(values);
    if (v.results() > 1) table.gives(state);
  }
  // Of a chunk: products of keys and queries, which the heads of a key share, what is solved, what is read and written of the memory.
  const auto width = static_cast<double>(query[3]), chunk = static_cast<double>(std::min(value[1], kTokensOfDeltaChunk));
  const double of_values = static_cast<double>(value[3] * value[4]);
  const double forward_terms = 3 * width + 1.5 * chunk + 2 * chunk * width / of_values;
  const double backward_terms = 8 * width + 4 * chunk + 6 * chunk * width / of_values;
  table.flops(2 * static_cast<double>(value[1]) * (backward ? backward_terms : forward_terms));
}

void delta_rule_factors(const NodeView& v, FactorTable& table) { spread_memory(v, false, table); }
void delta_rule_grad_factors(const NodeView& v, FactorTable& table) { spread_memory(v, true, table); }

std::vector<Tensor> delta_rule_gradient(const Vjp& v) {
  std::vector<Tensor> inputs = v.operands;
  inputs.push_back(v.dy());
  std::vector<Tensor> made = v.grad(Op::delta_rule_grad, inputs, {v.operands.begin(), v.operands.begin() + 5});
  made.emplace_back();
  return made;
}

// The state after the tokens takes the place of the one before them.
bool delta_rule_lies_in(std::size_t operand, std::size_t result) { return operand == 6 && result == 1; }

}  // namespace

const OpFacts kCausalConv{.name = "causal_conv",
                          .attributes = blank<std::monostate>,
                          .takes = {2, 5},
                          .gives = {1, 2},
                          .shapes = causal_conv_shapes,
                          .factors = causal_conv_factors,
                          .gradient = causal_conv_gradient,
                          .kernel = KernelKind::norm};
const OpFacts kCausalConvGrad{.name = "causal_conv_grad",
                              .attributes = blank<std::monostate>,
                              .takes = {3},
                              .gives = {2},
                              .shapes = causal_conv_grad_shapes,
                              .factors = causal_conv_grad_factors,
                              .gradient = kNoGradient,
                              .kernel = KernelKind::norm};
const OpFacts kDeltaRule{.name = "delta_rule",
                         .attributes = blank<std::monostate>,
                         .takes = {6, 8},
                         .gives = {1, 2},
                         .shapes = delta_rule_shapes,
                         .factors = delta_rule_factors,
                         .gradient = delta_rule_gradient,
                         .kernel = KernelKind::attention,
                         .lies_in = delta_rule_lies_in};
const OpFacts kDeltaRuleGrad{.name = "delta_rule_grad",
                             .attributes = blank<std::monostate>,
                             .takes = {7},
                             .gives = {5},
                             .shapes = delta_rule_grad_shapes,
                             .factors = delta_rule_grad_factors,
                             .gradient = kNoGradient,
                             .kernel = KernelKind::attention};

}  // namespace moesh::graph::ops
