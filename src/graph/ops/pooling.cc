// Keys that are made of several tokens each.
// Shape suffixes: B rows, S tokens, N windows, W windows of new tokens, C what a window is made of.
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

std::string new_windows_shapes(const NodeView& v) {
  const std::string wanted = "positions and segments [B, S], their slots [B, S], and three of windows [B, W]";
  const Shape &tokens = v.operand(0).shape, &windows = v.result(1).shape;
  const auto& of = v.of<NewWindowsOf>();
  const auto are = [&](const Value& value, const Shape& shape, DType dtype) { return value.shape == shape && value.dtype == dtype; };
  const bool fits = tokens.size() == 2 && windows.size() == 2 && windows[0] == tokens[0] && of.tokens > 0 && of.count >= windows[1] &&
                    are(v.operand(0), tokens, DType::int32) && are(v.operand(1), tokens, DType::int32) &&
                    are(v.result(0), tokens, DType::int32) && are(v.result(1), windows, DType::int32) &&
                    are(v.result(2), windows, DType::int32) && are(v.result(3), windows, DType::float32);
  return fits ? "" : wanted;
}

void new_windows_factors(const NodeView& v, FactorTable& table) { table.alike({table.factor(v.operand(0).shape[0]), kWhole}); }

std::string window_rows_shapes(const NodeView& v) {
  const std::string wanted = "kept [B, R, ...] and new [B, S, ...] of tokens, their positions [B, S], and windows [B, W, C, ...]";
  const Value &kept = v.operand(0), &rows = v.operand(1), &made = v.result(0);
  if (kept.shape.size() < 2 || made.shape.size() != kept.shape.size() + 1 || rows.shape.size() != kept.shape.size()) return wanted;
  Shape of_new = kept.shape, of_windows = made.shape;
  of_new[1] = rows.shape[1];
  of_windows.erase(of_windows.begin() + 1);
  of_windows[1] = kept.shape[1];
  const std::int64_t before = v.of<WindowRowsOf>().before;
  const bool fits = rows.shape == of_new && of_windows == kept.shape && rows.dtype == kept.dtype && made.dtype == kept.dtype &&
                    v.operand(2).shape == first_sizes(rows.shape, 2) && v.operand(2).dtype == DType::int32 && before >= 0 &&
                    made.shape[1] > before && kept.shape[1] >= (before + 1) * made.shape[2];
  return fits ? "" : wanted;
}

// A window and what it is made of is whole.
void window_rows_factors(const NodeView& v, FactorTable& table) {
  const std::vector<int> tokens = table.own_but(v.operand(0).shape, {1});
  std::vector<int> windows = tokens;
  windows.insert(windows.begin() + 1, kWhole);
  table.takes(tokens).takes(tokens).takes({tokens[0], kWhole}).gives(windows);
}

// All windows but those of new tokens.
double window_rows_read(const NodeView& v, std::size_t operand) {
  const std::int64_t most = (v.of<WindowRowsOf>().before + 1) * v.result(0).shape[2];
  return operand > 0 ? 1 : std::min(1.0, static_cast<double>(most) / static_cast<double>(v.operand(0).shape[1]));
}

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
const OpFacts kNewWindows{.name = "new_windows",
                          .attributes = blank<NewWindowsOf>,
                          .takes = {2},
                          .gives = {4},
                          .shapes = new_windows_shapes,
                          .factors = new_windows_factors,
                          .gradient = kNoGradient};
const OpFacts kWindowRows{.name = "window_rows",
                          .attributes = blank<WindowRowsOf>,
                          .takes = {3},
                          .gives = {1},
                          .shapes = window_rows_shapes,
                          .factors = window_rows_factors,
                          .gradient = kNoGradient,
                          .kernel = KernelKind::rows,
                          .part_read = window_rows_read};
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
