// Ops of layers other than products: softmax, norms, positions, embeddings.
#include "graph/ops/ops.h"
#include "graph/ops/table.h"

namespace moesh::graph::ops {
namespace {

int last_dim(const Shape& shape) { return static_cast<int>(shape.size()) - 1; }

std::string softmax_shapes(const NodeView& v) {
  return !v.operand(0).shape.empty() && all_like(v, v.operand(0)) ? "" : "a softmax over the last dim";
}

void softmax_factors(const NodeView& v, FactorTable& table) {
  table.alike(table.own_but(v.result(0).shape, {last_dim(v.result(0).shape)}));
}

std::vector<Tensor> softmax_gradient(const Vjp& v) {
  return v.grad(Op::softmax_grad, {v.results[0], v.dy()}, {v.operands[0]});
}

std::string softmax_grad_shapes(const NodeView& v) {
  return all_like(v, v.operand(0)) ? "" : "a softmax and its cotangent";
}

void softmax_grad_factors(const NodeView& v, FactorTable& table) {
  softmax_factors(v, table);
  table.linear_in({1});
}

bool is_scale_of(const Value& scale, const Value& x) {
  return !x.shape.empty() && scale.shape == Shape{x.shape.back()};
}

// Whether rows are not sharded. Sharded rows take their sums as operands, in the ops `..._of_dots`.
bool has_whole_rows(const NodeView& v) { return v.of<RmsNormOf>().width == 0; }

std::string rms_norm_shapes(const NodeView& v) {
  const bool fits = is_scale_of(v.operand(1), v.operand(0)) && is_like(v.operand(0), v.result(0)) && has_whole_rows(v);
  return fits ? "" : "a norm with a scale for each element of the last dim";
}

void rms_norm_factors(const NodeView& v, FactorTable& table) {
  const std::vector<int> dims = table.own_but(v.operand(0).shape, {last_dim(v.operand(0).shape)});
  table.takes(dims).takes({kWhole}).gives(dims);
}

std::vector<Tensor> rms_norm_gradient(const Vjp& v) {
  return v.grad(Op::rms_norm_grad, {v.operands[0], v.operands[1], v.dy()}, v.operands);
}

bool are_of_norm_grad(const NodeView& v) {
  return is_scale_of(v.operand(1), v.operand(0)) && is_like(v.operand(0), v.operand(2)) && is_like(v.operand(0), v.result(0)) &&
         is_like(v.operand(1), v.result(1));
}

std::string rms_norm_grad_shapes(const NodeView& v) {
  return are_of_norm_grad(v) && has_whole_rows(v) ? "" : "a norm's value, scale and cotangent";
}

void rms_norm_grad_factors(const NodeView& v, FactorTable& table) {
  const std::vector<int> dims = table.own_but(v.operand(0).shape, {last_dim(v.operand(0).shape)});
  table.takes(dims).takes({kWhole}).takes(dims).gives(dims).gives({kWhole}).linear_in({2});
}

// Whether the value has one number for each row of x, in the wide type.
bool is_of_rows(const Value& value, const Value& x) {
  return !x.shape.empty() && value.shape == first_sizes(x.shape, x.shape.size() - 1) && value.dtype == wide_of(x.dtype);
}

bool is_width_of(const RmsNormOf& of, const Value& x) { return of.width >= x.shape.back(); }

std::string row_dot_shapes(const NodeView& v) {
  const bool fits = is_like(v.operand(0), v.operand(1)) && is_of_rows(v.result(0), v.operand(0)) &&
                    (v.operands() == 2 || is_scale_of(v.operand(2), v.operand(0)));
  return fits ? "" : "rows, others like them, and a sum for each";
}

void row_dot_factors(const NodeView& v, FactorTable& table) {
  const std::vector<int> dims = table.own(v.operand(0).shape);
  table.takes(dims).takes(dims).gives(first_dims(dims, dims.size() - 1));
  if (v.operands() == 3) table.takes({dims.back()});
  if (v.node.operands[0] != v.node.operands[1]) table.linear_in({1});  // a sum of squares is not linear
}

std::string rms_norm_of_dots_shapes(const NodeView& v) {
  const bool fits = is_scale_of(v.operand(1), v.operand(0)) && is_of_rows(v.operand(2), v.operand(0)) &&
                    is_like(v.operand(0), v.result(0)) && is_width_of(v.of<RmsNormOf>(), v.operand(0));
  return fits ? "" : "a norm with a scale for each element of the last dim, and each row's sum of squares";
}

void rms_norm_of_dots_factors(const NodeView& v, FactorTable& table) {
  const std::vector<int> dims = table.own(v.operand(0).shape);
  table.takes(dims).takes({dims.back()}).takes(first_dims(dims, dims.size() - 1)).gives(dims);
}

std::string rms_norm_grad_of_dots_shapes(const NodeView& v) {
  const bool fits = are_of_norm_grad(v) && is_of_rows(v.operand(3), v.operand(0)) && is_of_rows(v.operand(4), v.operand(0)) &&
                    is_width_of(v.of<RmsNormOf>(), v.operand(0));
  return fits ? "" : "a norm's value, scale and cotangent, and each row's sums";
}

void rms_norm_grad_of_dots_factors(const NodeView& v, FactorTable& table) {
  const std::vector<int> dims = table.own(v.operand(0).shape), rows = first_dims(dims, dims.size() - 1);
  table.takes(dims).takes({dims.back()}).takes(dims).takes(rows).takes(rows).gives(dims).gives({dims.back()});
}

std::string rope_shapes(const NodeView& v) {
  const Shape& x = v.operand(0).shape;
  const bool fits =
      x.size() == 4 && x[3] % 2 == 0 && v.operand(1).shape == Shape{x[0], x[1]} && is_like(v.operand(0), v.result(0));
  return fits ? "" : "pairs in the last of four dims [B, S, H, D], with positions [B, S],";
}

void rope_factors(const NodeView& v, FactorTable& table) {
  const std::vector<int> x = table.own_but(v.operand(0).shape, {3});
  table.takes(x).takes(first_dims(x, 2)).gives(x).linear_in({0});
}

std::vector<Tensor> rope_gradient(const Vjp& v) {
  RopeOf turned = v.of<RopeOf>();
  turned.inverse = !turned.inverse;
  return {v.builder.add_one(Op::rope, "", {v.dy(), v.operands[1]}, turned, v.dy().shape(), v.dy().dtype()), {}};
}

std::string temper_shapes(const NodeView& v) {
  const bool fits = v.operand(0).dtype == DType::int32 && v.operand(0).shape == v.result(0).shape && v.result(0).dtype == DType::float32;
  return fits ? "" : "positions, and a number for each";
}

void temper_factors(const NodeView& v, FactorTable& table) { table.alike(table.own(v.result(0).shape)); }

// Whether these are rows [..., M] of a table [V, M], one for each token; their type may differ from the table's.
bool are_rows_of_table(const Value& rows, const Value& tokens, const Value& table) {
  Shape shape = tokens.shape;
  if (table.shape.size() != 2 || tokens.dtype != DType::int32) return false;
  shape.push_back(table.shape[1]);
  return rows.shape == shape;
}

std::string embed_shapes(const NodeView& v) {
  const bool fits = are_rows_of_table(v.result(0), v.operand(1), v.operand(0));
  return fits ? "" : "a table [V, M] and token ids";
}

// For a token whose row is on another device the result is zeros, so the results of all devices add up to that row.
void embed_factors(const NodeView& v, FactorTable& table) {
  const std::vector<int> rows = table.own(v.result(0).shape);
  table.takes({table.factor(v.operand(0).shape[0]), rows.back()});
  table.takes(first_dims(rows, v.operand(1).shape.size())).gives(rows);
}

std::vector<Tensor> embed_gradient(const Vjp& v) {
  return {v.grad(Op::embed_grad, {v.operands[1], v.dy()}, {v.operands[0]})[0], {}};
}

std::string embed_grad_shapes(const NodeView& v) {
  const bool fits = are_rows_of_table(v.operand(1), v.operand(0), v.result(0));
  return fits ? "" : "token ids and the cotangents of their rows";
}

void embed_grad_factors(const NodeView& v, FactorTable& table) {
  const std::vector<int> rows = table.own(v.operand(1).shape);
  table.takes(first_dims(rows, v.operand(0).shape.size())).takes(rows).gives({kWhole, rows.back()}).linear_in({1});
}

std::string embed_add_shapes(const NodeView& v) {
  const bool fits = are_rows_of_table(v.operand(2), v.operand(1), v.operand(0)) && is_like(v.operand(0), v.result(0));
  return fits ? "" : "a table, token ids and what is added to their rows";
}

void embed_add_factors(const NodeView& v, FactorTable& table) {
  const int width = table.factor(v.operand(0).shape[1]);
  std::vector<int> rows(v.operand(2).shape.size(), kWhole);
  rows.back() = width;
  table.takes({kWhole, width}).takes(std::vector<int>(rows.size() - 1, kWhole)).takes(rows).gives({kWhole, width}).in_place();
}

}  // namespace

const OpFacts kSoftmax{.name = "softmax",
                       .attributes = blank<std::monostate>,
                       .takes = {1},
                       .gives = {1},
                       .shapes = softmax_shapes,
                       .factors = softmax_factors,
                       .gradient = softmax_gradient,
                       .keeps_dims = true,
                       .kernel = KernelKind::norm};
const OpFacts kSoftmaxGrad{.name = "softmax_grad",
                           .attributes = blank<std::monostate>,
                           .takes = {2},
                           .gives = {1},
                           .shapes = softmax_grad_shapes,
                           .factors = softmax_grad_factors,
                           .gradient = kNoGradient,
                           .keeps_dims = true,
                           .kernel = KernelKind::norm};
const OpFacts kRmsNorm{.name = "rms_norm",
                       .attributes = blank<RmsNormOf>,
                       .takes = {2},
                       .gives = {1},
                       .shapes = rms_norm_shapes,
                       .factors = rms_norm_factors,
                       .gradient = rms_norm_gradient,
                       .keeps_dims = true,
                       .kernel = KernelKind::norm};
const OpFacts kRmsNormGrad{.name = "rms_norm_grad",
                           .attributes = blank<RmsNormOf>,
                           .takes = {3},
                           .gives = {2},
                           .shapes = rms_norm_grad_shapes,
                           .factors = rms_norm_grad_factors,
                           .gradient = kNoGradient,
                           .keeps_dims = true,
                           .kernel = KernelKind::norm,
                           .added_to = 3};
const OpFacts kRowDot{.name = "row_dot",
                      .attributes = blank<std::monostate>,
                      .takes = {2, 3},
                      .gives = {1},
                      .shapes = row_dot_shapes,
                      .factors = row_dot_factors,
                      .gradient = kNoGradient};
const OpFacts kRmsNormOfDots{.name = "rms_norm_of_dots",
                             .attributes = blank<RmsNormOf>,
                             .takes = {3},
                             .gives = {1},
                             .shapes = rms_norm_of_dots_shapes,
                             .factors = rms_norm_of_dots_factors,
                             .gradient = kNoGradient,
                             .keeps_dims = true};
const OpFacts kRmsNormGradOfDots{.name = "rms_norm_grad_of_dots",
                                 .attributes = blank<RmsNormOf>,
                                 .takes = {5},
                                 .gives = {2},
                                 .shapes = rms_norm_grad_of_dots_shapes,
                                 .factors = rms_norm_grad_of_dots_factors,
                                 .gradient = kNoGradient,
                                 .keeps_dims = true,
                                 .added_to = 5};
const OpFacts kRope{.name = "rope",
                    .attributes = blank<RopeOf>,
                    .takes = {2},
                    .gives = {1},
                    .shapes = rope_shapes,
                    .factors = rope_factors,
                    .gradient = rope_gradient,
                    .keeps_dims = true};
const OpFacts kTemper{.name = "temper",
                      .attributes = blank<TemperOf>,
                      .takes = {1},
                      .gives = {1},
                      .shapes = temper_shapes,
                      .factors = temper_factors,
                      .gradient = kNoGradient,
                      .keeps_dims = true};
const OpFacts kEmbed{.name = "embed",
                     .attributes = blank<std::monostate>,
                     .takes = {2},
                     .gives = {1},
                     .shapes = embed_shapes,
                     .factors = embed_factors,
                     .gradient = embed_gradient,
                     .kernel = KernelKind::rows,
                     .looked_up = 0};
const OpFacts kEmbedGrad{.name = "embed_grad",
                         .attributes = blank<std::monostate>,
                         .takes = {2},
                         .gives = {1},
                         .shapes = embed_grad_shapes,
                         .factors = embed_grad_factors,
                         .gradient = kNoGradient,
                         .kernel = KernelKind::rows,
                         .sums_wide = 0};
const OpFacts kEmbedAdd{.name = "embed_add",
                        .attributes = blank<std::monostate>,
                        .takes = {3},
                        .gives = {1},
                        .shapes = embed_add_shapes,
                        .factors = embed_add_factors,
                        .gradient = kNoGradient,
                        .kernel = KernelKind::rows,
                        .lies_in = over_first};

}  // namespace moesh::graph::ops
