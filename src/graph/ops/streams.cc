// How several streams of a residual are mixed.
#include "graph/doubly_stochastic.h"
#include "graph/ops/ops.h"
#include "graph/ops/table.h"

namespace moesh::graph::ops {
namespace {

// Whether `logits` are those that matrices of this shape are made of.
bool are_made_of(const Shape& matrices, const Shape& logits, const DoublyStochasticOf& of) {
  if (matrices.size() < 2) return false;
  const std::int64_t streams = matrices.back();
  if (matrices[matrices.size() - 2] != streams || streams < 1 || streams > kMostStreams || of.iterations < 0) return false;
  if (of.iterations > 0) return logits == matrices;
  Shape wanted = first_sizes(matrices, matrices.size() - 2);
  if (streams > kMostPermuted) return false;
  wanted.push_back(permutations_of(streams));
  return logits == wanted;
}

std::string doubly_stochastic_shapes(const NodeView& v) {
  const bool fits = is_floating(v.operand(0).dtype) && v.result(0).dtype == v.operand(0).dtype &&
                    are_made_of(v.result(0).shape, v.operand(0).shape, v.of<DoublyStochasticOf>());
  return fits ? "" : "logits [..., K, K], or without iterations [..., K!], and matrices [..., K, K]";
}

std::string doubly_stochastic_grad_shapes(const NodeView& v) {
  const bool fits = is_floating(v.operand(0).dtype) && v.operand(1).dtype == v.operand(0).dtype && is_like(v.operand(0), v.result(0)) &&
                    are_made_of(v.operand(1).shape, v.operand(0).shape, v.of<DoublyStochasticOf>());
  return fits ? "" : "what doubly_stochastic takes, and its cotangent";
}

// The factors of the logits, and of the matrices: each matrix is whole.
std::pair<std::vector<int>, std::vector<int>> dims_of(FactorTable& table, const Shape& logits, const Shape& matrices) {
  const int rank = static_cast<int>(matrices.size());
  const std::vector<int> of_matrices = table.own_but(matrices, {rank - 2, rank - 1});
  return {first_dims(of_matrices, logits.size()), of_matrices};
}

void doubly_stochastic_factors(const NodeView& v, FactorTable& table) {
  const auto [logits, matrices] = dims_of(table, v.operand(0).shape, v.result(0).shape);
  table.takes(logits).gives(matrices);
}

void doubly_stochastic_grad_factors(const NodeView& v, FactorTable& table) {
  const auto [logits, matrices] = dims_of(table, v.operand(0).shape, v.operand(1).shape);
  table.takes(logits).takes(matrices).gives(logits).linear_in({1});
}

std::vector<Tensor> doubly_stochastic_gradient(const Vjp& v) {
  return v.grad(Op::doubly_stochastic_grad, {v.operands[0], v.dy()}, {v.operands[0]});
}

}  // namespace

const OpFacts kDoublyStochastic{.name = "doubly_stochastic",
                                .attributes = blank<DoublyStochasticOf>,
                                .takes = {1},
                                .gives = {1},
                                .shapes = doubly_stochastic_shapes,
                                .factors = doubly_stochastic_factors,
                                .gradient = doubly_stochastic_gradient,
                                .kernel = KernelKind::norm};
const OpFacts kDoublyStochasticGrad{.name = "doubly_stochastic_grad",
                                    .attributes = blank<DoublyStochasticOf>,
                                    .takes = {2},
                                    .gives = {1},
                                    .shapes = doubly_stochastic_grad_shapes,
                                    .factors = doubly_stochastic_grad_factors,
                                    .gradient = kNoGradient,
                                    .kernel = KernelKind::norm};

}  // namespace moesh::graph::ops
