// Matrix products: contractions, and grouped GEMMs of each expert's rows with its weights.
// Shape suffixes: R rows sorted by expert, E experts, K and N a product's dims.
#include <algorithm>
#include <map>

#include "base/place.h"
#include "graph/counted_rows.h"
#include "graph/equation.h"
#include "graph/ops/ops.h"
#include "graph/ops/table.h"
#include "graph/work.h"

namespace moesh::graph::ops {
namespace {

// Binds the letters to their sizes; false if the rank is wrong or a letter has two sizes.
bool bind_letters(const std::string& letters, const Shape& shape, std::map<char, std::int64_t>& sizes) {
  if (letters.size() != shape.size()) return false;
  for (std::size_t i = 0; i < letters.size(); ++i) {
    if (sizes.emplace(letters[i], shape[i]).first->second != shape[i]) return false;
  }
  return true;
}

// Whether the operands have one type and the result has the same type, or float32 if they are bfloat16.
bool have_product_types(const NodeView& v) {
  const DType operands = v.operand(0).dtype, result = v.result(0).dtype;
  return v.operand(1).dtype == operands && (result == operands || (operands == DType::bfloat16 && result == DType::float32));
}

bool has_part(const EinsumOf& of, const Shape& shape) {
  if (of.part_size == 0) return of.part_begin == 0 && of.part_dim == 0;
  return of.part_dim >= 0 && of.part_dim < static_cast<int>(shape.size()) && of.part_begin >= 0 && of.part_size > 0 &&
         of.part_begin + of.part_size <= shape[at(of.part_dim)];
}

std::string einsum_shapes(const NodeView& v) {
  const auto& of = v.of<EinsumOf>();
  const std::string& text = of.equation;
  const std::string what = text.empty() ? "einsum" : text;
  if (!is_equation(text)) return what;
  if (!has_part(of, v.operand(1).shape)) return what + " of a part that the second operand has";
  const Equation letters = parse_equation(text);
  std::map<char, std::int64_t> sizes;
  const bool fits = bind_letters(letters.a, v.operand(0).shape, sizes) &&
                    bind_letters(letters.b, shape_read(of, v.operand(1).shape), sizes) &&
                    bind_letters(letters.result, v.result(0).shape, sizes) &&
                    have_product_types(v);
  return fits ? "" : what;
}

void einsum_factors(const NodeView& v, FactorTable& table) {
  const auto& of = v.of<EinsumOf>();
  const Equation equation = parse_equation(of.equation);
  std::map<char, int> letters;
  const auto dims = [&](const std::string& text, const Shape& shape) {
    std::vector<int> made;
    for (std::size_t i = 0; i < text.size(); ++i) {
      if (!letters.contains(text[i])) letters[text[i]] = table.factor(shape[i]);
      made.push_back(letters[text[i]]);
    }
    return made;
  };
  table.takes(dims(equation.a, v.operand(0).shape));
  table.takes(dims(equation.b, shape_read(of, v.operand(1).shape)));
  table.gives(dims(equation.result, v.result(0).shape));
  table.linear_in({0, 1}).flops(2).anywhere();
}

std::vector<Tensor> einsum_gradient(const Vjp& v) {
  const auto& of = v.of<EinsumOf>();
  const auto [a, b, out] = parse_equation(of.equation);
  return {einsum("", Equation{out, b, a}.text(), v.dy(), v.operands[1], of.rounded),
          einsum("", Equation{a, out, b}.text(), v.operands[0], v.dy(), of.rounded)};
}

double part_of_einsum_read(const NodeView& v, std::size_t operand) {
  const auto& of = v.of<EinsumOf>();
  if (operand != 1 || of.part_size == 0) return 1;
  return static_cast<double>(of.part_size) / static_cast<double>(v.operand(1).shape[at(of.part_dim)]);
}

bool are_rows(const Value& value) { return value.shape.size() == 2; }

// Whether there are rows [R, width], and `sizes` counts those of each expert.
bool are_rows_of(const Value& rows, std::int64_t width, const Value& sizes, std::int64_t experts) {
  return are_rows(rows) && rows.shape[1] == width && sizes.shape == Shape{experts} && sizes.dtype == DType::int32;
}

std::string grouped_matmul_shapes(const NodeView& v) {
  const std::string wanted = "rows, a matrix for each expert and the experts' sizes";
  if (v.operand(1).shape.size() != 3) return wanted;
  const Shape& weights = v.operand(1).shape;
  const bool transpose = v.of<GroupedMatmulOf>().transpose;
  const std::int64_t k = weights[transpose ? 2 : 1];
  const std::int64_t n = weights[transpose ? 1 : 2];
  const bool fits = are_rows_of(v.operand(0), k, v.operand(2), weights[0]) &&
                    v.result(0).shape == Shape{v.operand(0).shape[0], n} && have_product_types(v);
  return fits ? "" : wanted;
}

std::vector<Tensor> grouped_matmul_gradient(const Vjp& v) {
  const Tensor& rows = v.operands[0];
  const Tensor& weights = v.operands[1];
  const Tensor& sizes = v.operands[2];
  const auto [transpose, rounded] = v.of<GroupedMatmulOf>();
  const Tensor drows = v.builder.add_one(Op::grouped_matmul, "", {v.dy(), weights, sizes}, GroupedMatmulOf{!transpose, rounded},
                                         rows.shape(), rows.dtype());
  const std::vector<Tensor> outer =
      transpose ? std::vector<Tensor>{v.dy(), rows, sizes} : std::vector<Tensor>{rows, v.dy(), sizes};
  return {drows, v.builder.add_one(Op::grouped_outer, "", outer, GroupedOuterOf{rounded}, weights.shape(), weights.dtype()), {}};
}

// The share of experts that are expected to have a row, whose weights or biases are read.
double experts_with_rows(const NodeView& v, std::size_t operand) {
  const auto rows = static_cast<double>(v.operand(0).shape[0]), experts = static_cast<double>(v.operand(1).shape[0]);
  return operand == 1 && experts > 0 ? groups_with_rows(rows, experts) / experts : 1;
}

// The rows are taken to be shared evenly among the experts that are expected to have any.
Work grouped_matmul_work(const NodeView& v) {
  const auto rows = static_cast<double>(v.operand(0).shape[0]), experts = static_cast<double>(v.operand(1).shape[0]);
  Work work;
  work.rows = rows / std::max(1.0, groups_with_rows(rows, experts));
  work.columns = static_cast<double>(v.result(0).shape[1]);
  work.depth = static_cast<double>(v.operand(0).shape[1]);
  work.flops = 2 * rows * work.columns * work.depth;
  return work;
}

std::string grouped_bias_shapes(const NodeView& v) {
  const bool fits = v.operand(1).shape.size() == 2 &&
                    are_rows_of(v.operand(0), v.operand(1).shape[1], v.operand(2), v.operand(1).shape[0]) &&
                    is_like(v.operand(0), v.result(0));
  return fits ? "" : "rows, a bias for each expert and the experts' sizes";
}

std::vector<Tensor> grouped_bias_gradient(const Vjp& v) {
  return {v.dy(), v.grad(Op::grouped_sum, {v.dy(), v.operands[2]}, {v.operands[1]})[0], {}};
}

std::string grouped_outer_shapes(const NodeView& v) {
  const std::string wanted = "rows, the rows of a cotangent and the experts' sizes";
  if (v.result(0).shape.size() != 3) return wanted;
  const Shape& weights = v.result(0).shape;
  const bool fits = are_rows_of(v.operand(0), weights[1], v.operand(2), weights[0]) &&
                    are_rows_of(v.operand(1), weights[2], v.operand(2), weights[0]) &&
                    v.operand(0).shape[0] == v.operand(1).shape[0] && have_product_types(v);
  return fits ? "" : wanted;
}

Work grouped_outer_work(const NodeView& v) {
  const auto rows = static_cast<double>(v.operand(0).shape[0]);
  Work work;
  work.rows = static_cast<double>(v.result(0).shape[1]);
  work.columns = static_cast<double>(v.result(0).shape[2]);
  work.depth = rows / static_cast<double>(v.result(0).shape[0]);
  work.flops = 2 * rows * work.rows * work.columns;
  return work;
}

void grouped_matmul_counted(const Node& node, SameRows& same) {
  same.join(node.operands[0], node.results[0]);
  if (adds(node)) same.join(node.operands[0], node.operands.back());
  same.count(node.operands[0], node.operands[2]);
}

void grouped_outer_counted(const Node& node, SameRows& same) {
  same.join(node.operands[0], node.operands[1]);
  same.count(node.operands[0], node.operands[2]);
}

std::string grouped_sum_shapes(const NodeView& v) {
  const bool fits = v.result(0).shape.size() == 2 &&
                    are_rows_of(v.operand(0), v.result(0).shape[1], v.operand(1), v.result(0).shape[0]);
  return fits ? "" : "the rows of a cotangent and the experts' sizes";
}

void grouped_sum_counted(const Node& node, SameRows& same) { same.count(node.operands[0], node.operands[1]); }

}  // namespace

const OpFacts kEinsum{.name = "einsum",
                      .attributes = blank<EinsumOf>,
                      .takes = {2},
                      .gives = {1},
                      .shapes = einsum_shapes,
                      .factors = einsum_factors,
                      .gradient = einsum_gradient,
                      .kernel = KernelKind::product,
                      .part_read = part_of_einsum_read,
                      .added_to = 2,
                      .sums_wide = 0};
const OpFacts kGroupedMatmul{.name = "grouped_matmul",
                             .attributes = blank<GroupedMatmulOf>,
                             .takes = {3},
                             .gives = {1},
                             .shapes = grouped_matmul_shapes,
                             .factors = kNotSpread,
                             .gradient = grouped_matmul_gradient,
                             .kernel = KernelKind::product,
                             .work = grouped_matmul_work,
                             .part_read = experts_with_rows,
                             .added_to = 3,
                             .sums_wide = 0,
                             .rows = grouped_matmul_counted};
const OpFacts kGroupedBias{.name = "grouped_bias",
                           .attributes = blank<std::monostate>,
                           .takes = {3},
                           .gives = {1},
                           .shapes = grouped_bias_shapes,
                           .factors = kNotSpread,
                           .gradient = grouped_bias_gradient,
                           .part_read = experts_with_rows,
                           .rows = grouped_matmul_counted};
const OpFacts kGroupedOuter{.name = "grouped_outer",
                            .attributes = blank<GroupedOuterOf>,
                            .takes = {3},
                            .gives = {1},
                            .shapes = grouped_outer_shapes,
                            .factors = kNotSpread,
                            .gradient = kNoGradient,
                            .kernel = KernelKind::product,
                            .work = grouped_outer_work,
                            .sums_wide = 0,
                            .rows = grouped_outer_counted};
const OpFacts kGroupedSum{.name = "grouped_sum",
                          .attributes = blank<std::monostate>,
                          .takes = {2},
                          .gives = {1},
                          .shapes = grouped_sum_shapes,
                          .factors = kNotSpread,
                          .gradient = kNoGradient,
                          .rows = grouped_sum_counted};

}  // namespace moesh::graph::ops
