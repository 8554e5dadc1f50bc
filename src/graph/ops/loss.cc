// The loss over a vocabulary, whole or in pieces.
// Shape suffixes: B rows, S length, V vocabulary, P pieces of it.
#include <cassert>
#include <numeric>

#include "graph/ops/ops.h"
#include "graph/ops/table.h"

namespace moesh::graph::ops {
namespace {

bool are_tokens(const Value& tokens, const Shape& logits) { return tokens.shape == first_sizes(logits, 2); }

bool are_scalars(const NodeView& v) { return v.result(0).shape.empty() && v.result(1).shape.empty(); }

bool logits_fit(const NodeView& v) {
  const Shape& logits = v.operand(0).shape;
  return logits.size() == 3 && are_tokens(v.operand(1), logits) && are_tokens(v.operand(2), logits);
}

std::string cross_entropy_shapes(const NodeView& v) {
  return logits_fit(v) && are_scalars(v) ? "" : "logits [B, S, V] with targets and segments [B, S]";
}

void cross_entropy_factors(const NodeView& v, FactorTable& table) {
  const std::vector<int> logits = table.own_but(v.operand(0).shape, {2});
  const std::vector<int> tokens = first_dims(logits, 2);
  table.takes(logits).takes(tokens).takes(tokens).gives({}).gives({});
}

std::vector<Tensor> cross_entropy_gradient(const Vjp& v) {
  assert(v.dy() && "the number of positions has no gradient");
  return {v.grad(Op::cross_entropy_grad, {v.operands[0], v.operands[1], v.operands[2], v.dy()}, {v.operands[0]})[0],
          {},
          {}};
}

std::string cross_entropy_grad_shapes(const NodeView& v) {
  const bool fits = logits_fit(v) && v.operand(3).shape.empty() && is_like(v.operand(0), v.result(0));
  return fits ? "" : "what the loss takes, and its cotangent";
}

// A device that knows the logarithms of all pieces of the vocabulary can do with its own piece of the logits.
void cross_entropy_grad_factors(const NodeView& v, FactorTable& table) {
  const bool in_pieces = v.operands() == 5;
  const std::vector<int> logits = in_pieces ? table.own(v.operand(0).shape) : table.own_but(v.operand(0).shape, {2});
  const std::vector<int> tokens = first_dims(logits, 2);
  table.takes(logits).takes(tokens).takes(tokens).takes({});
  if (in_pieces) table.takes({tokens[0], tokens[1], kWhole});
  table.gives(logits);
}

std::string vocab_scores_shapes(const NodeView& v) {
  const Shape& logits = v.operand(0).shape;
  const bool fits = logits.size() == 3 && are_tokens(v.operand(1), logits) && are_tokens(v.result(0), logits) &&
                    v.result(1).shape.size() == 3 && are_tokens(v.result(0), v.result(1).shape);
  return fits ? "" : "logits [B, S, V] with targets [B, S]";
}

void vocab_scores_factors(const NodeView& v, FactorTable& table) {
  const Shape& shape = v.operand(0).shape;
  const int b = table.factor(shape[0]);
  const int s = table.factor(shape[1]);
  const int pieces = table.factor(std::gcd(shape[2], v.result(1).shape[2]), true);
  table.takes({b, s, pieces}).takes({b, s}).gives({b, s}).gives({b, s, pieces});
}

std::string cross_entropy_of_scores_shapes(const NodeView& v) {
  const bool fits = v.operand(1).shape.size() == 3 && are_tokens(v.operand(0), v.operand(1).shape) &&
                    are_tokens(v.operand(2), v.operand(1).shape) && are_scalars(v);
  return fits ? "" : "scores [B, S], logarithms [B, S, P] and segments [B, S]";
}

void cross_entropy_of_scores_factors(const NodeView& v, FactorTable& table) {
  const std::vector<int> tokens = table.own(v.operand(0).shape);
  table.takes(tokens).takes({tokens[0], tokens[1], kWhole}).takes(tokens).gives({}).gives({});
}

}  // namespace

const OpFacts kCrossEntropy{.name = "cross_entropy",
                            .attributes = blank<CrossEntropyOf>,
                            .takes = {3},
                            .gives = {2},
                            .shapes = cross_entropy_shapes,
                            .factors = cross_entropy_factors,
                            .gradient = cross_entropy_gradient,
                            .kernel = KernelKind::norm};
const OpFacts kCrossEntropyGrad{.name = "cross_entropy_grad",
                                .attributes = blank<CrossEntropyOf>,
                                .takes = {4, 5},
                                .gives = {1},
                                .shapes = cross_entropy_grad_shapes,
                                .factors = cross_entropy_grad_factors,
                                .gradient = kNoGradient,
                                .kernel = KernelKind::norm};
const OpFacts kVocabScores{.name = "vocab_scores",
                           .attributes = blank<std::monostate>,
                           .takes = {2},
                           .gives = {2},
                           .shapes = vocab_scores_shapes,
                           .factors = vocab_scores_factors,
                           .gradient = kNoGradient,
                           .kernel = KernelKind::norm};
const OpFacts kCrossEntropyOfScores{.name = "cross_entropy_of_scores",
                                    .attributes = blank<CrossEntropyOf>,
                                    .takes = {3},
                                    .gives = {2},
                                    .shapes = cross_entropy_of_scores_shapes,
                                    .factors = cross_entropy_of_scores_factors,
                                    .gradient = kNoGradient};

}  // namespace moesh::graph::ops
