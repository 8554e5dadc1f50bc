// The loss over a vocabulary, whole or in pieces.
// Shape suffixes: B rows, S length, V vocabulary, P pieces of it, M embedding.
#include <numeric>

#include "graph/ops/ops.h"
#include "graph/ops/table.h"

namespace moesh::graph::ops {
namespace {

bool are_tokens(const Value& tokens, const Shape& logits) { return tokens.shape == first_sizes(logits, 2); }

std::string positions_shapes(const NodeView& v) {
  return v.operand(0).shape.size() == 2 && v.result(0).shape.empty() ? "" : "segments [B, S]";
}

bool z_loss_fits(const NodeView& v) { return !graph::gives_z_loss(v.results()) || v.result(v.results() - 1).shape.empty(); }

void give_z_loss(const NodeView& v, FactorTable& table) {
  if (graph::gives_z_loss(v.results())) table.gives({});
}

void positions_factors(const NodeView& v, FactorTable& table) { table.takes(table.own(v.operand(0).shape)).gives({}); }

bool logits_fit(const NodeView& v) {
  const Shape& logits = v.operand(0).shape;
  return logits.size() == 3 && are_tokens(v.operand(1), logits) && are_tokens(v.operand(2), logits);
}

std::string cross_entropy_shapes(const NodeView& v) {
  return logits_fit(v) && v.result(0).shape.empty() && z_loss_fits(v) ? "" : "logits [B, S, V] with targets and segments [B, S]";
}

void cross_entropy_factors(const NodeView& v, FactorTable& table) {
  const std::vector<int> logits = table.own_but(v.operand(0).shape, {2});
  const std::vector<int> tokens = first_dims(logits, 2);
  table.takes(logits).takes(tokens).takes(tokens).gives({});
  give_z_loss(v, table);
}

std::vector<Tensor> cross_entropy_gradient(const Vjp& v) {
  return {v.grad(Op::cross_entropy_grad, {v.operands[0], v.operands[1], v.operands[2], v.dy()}, {v.operands[0]})[0],
          {},
          {}};
}

std::string cross_entropy_grad_shapes(const NodeView& v) {
  const bool fits = logits_fit(v) && v.operand(3).shape.empty() && is_like(v.operand(0), v.result(0));
  return fits ? "" : "what the loss takes, and its cotangent";
}

// A device that is given the logarithms of all pieces of the vocabulary needs only its own piece of the logits.
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
                    v.result(1).shape.size() == 3 && are_tokens(v.result(0), v.result(1).shape) && v.result(1).shape[2] > 0 &&
                    logits[2] % v.result(1).shape[2] == 0;
  return fits ? "" : "logits [B, S, V] with targets [B, S], and pieces of V of equal size";
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
                    are_tokens(v.operand(2), v.operand(1).shape) && v.result(0).shape.empty() && z_loss_fits(v);
  return fits ? "" : "scores [B, S], logarithms [B, S, P] and segments [B, S]";
}

void cross_entropy_of_scores_factors(const NodeView& v, FactorTable& table) {
  const std::vector<int> tokens = table.own(v.operand(0).shape);
  table.takes(tokens).takes({tokens[0], tokens[1], kWhole}).takes(tokens).gives({});
  give_z_loss(v, table);
}

// Whether x is [B, S, M], and the table its, in its type or the wide one.
bool has_table(const NodeView& v) {
  const Shape& x = v.operand(0).shape;
  const Shape& table = v.operand(1).shape;
  return x.size() == 3 && table.size() == 2 && table[v.of<VocabLossOf>().by_token ? 1 : 0] == x[2] &&
         (v.operand(1).dtype == v.operand(0).dtype || v.operand(1).dtype == wide_of(v.operand(0).dtype));
}

// Whether the results are gradients of x and of the table.
bool gradients_fit(const NodeView& v, std::size_t of_x) {
  const Value& dtable = v.result(of_x + 1);
  return is_like(v.operand(0), v.result(of_x)) && dtable.shape == v.operand(1).shape &&
         (dtable.dtype == v.operand(0).dtype || dtable.dtype == wide_of(v.operand(0).dtype));
}

std::int64_t vocabulary_of(const NodeView& v) { return v.operand(1).shape[v.of<VocabLossOf>().by_token ? 0 : 1]; }

std::vector<int> table_factors(const NodeView& v, int vocabulary, int embedding) {
  return v.of<VocabLossOf>().by_token ? std::vector<int>{vocabulary, embedding} : std::vector<int>{embedding, vocabulary};
}

std::string vocab_loss_shapes(const NodeView& v) {
  const Shape& x = v.operand(0).shape;
  const bool fits = has_table(v) && are_tokens(v.operand(2), x) && are_tokens(v.operand(3), x) && v.result(0).shape.empty() &&
                    v.operands() == (graph::gives_gradients(v.results()) ? 5 : 4) && z_loss_fits(v) &&
                    (!graph::gives_gradients(v.results()) || (v.operand(4).shape.empty() && gradients_fit(v, 1)));
  return fits ? ""
              : "x [B, S, M], a table and its gradient of its type or of the wide one, targets and segments [B, S], the loss' cotangent";
}

// Gradients, where they are asked for, take two more matrix products besides the one for the logits.
void vocab_loss_factors(const NodeView& v, FactorTable& table) {
  const std::vector<int> x = table.own(v.operand(0).shape), tokens = first_dims(x, 2);
  const std::vector<int> of_table = table_factors(v, table.factor(vocabulary_of(v)), x[2]);
  table.takes(x).takes(of_table).takes(tokens).takes(tokens);
  if (graph::gives_gradients(v.results())) table.takes({}).gives({}).gives(x).gives(of_table).flops(6);
  else table.gives({}).flops(2);
  give_z_loss(v, table);
}

std::string vocab_logs_shapes(const NodeView& v) {
  const Shape& x = v.operand(0).shape;
  const Shape& logs = v.result(1).shape;
  const bool fits = has_table(v) && are_tokens(v.operand(2), x) && are_tokens(v.result(0), x) && logs.size() == 3 &&
                    are_tokens(v.result(0), logs) && logs[2] > 0 && vocabulary_of(v) % logs[2] == 0;
  return fits ? "" : "x [B, S, M], a table and targets [B, S], and pieces of V of equal size";
}

void vocab_logs_factors(const NodeView& v, FactorTable& table) {
  const std::vector<int> x = table.own(v.operand(0).shape), tokens = first_dims(x, 2);
  const std::int64_t shared = std::gcd(vocabulary_of(v), v.result(1).shape[2]);
  const int pieces = table.factor(shared, true);
  table.factor(vocabulary_of(v) / shared);  // the words of a piece, for the work
  table.takes(x).takes(table_factors(v, pieces, x[2])).takes(tokens).gives(tokens).gives({tokens[0], tokens[1], pieces}).flops(2);
}

std::string vocab_loss_grad_shapes(const NodeView& v) {
  const Shape& x = v.operand(0).shape;
  const Shape& logs = v.operand(5).shape;
  const bool fits = has_table(v) && are_tokens(v.operand(2), x) && are_tokens(v.operand(3), x) && v.operand(4).shape.empty() &&
                    logs.size() == 3 && are_tokens(v.operand(2), logs) && gradients_fit(v, 0);
  return fits ? "" : "what vocab_loss takes, and logarithms [B, S, P]";
}

// The logits are made again.
void vocab_loss_grad_factors(const NodeView& v, FactorTable& table) {
  const std::vector<int> x = table.own(v.operand(0).shape), tokens = first_dims(x, 2);
  const std::vector<int> of_table = table_factors(v, table.factor(vocabulary_of(v)), x[2]);
  table.takes(x).takes(of_table).takes(tokens).takes(tokens).takes({}).takes({tokens[0], tokens[1], kWhole});
  table.gives(x).gives(of_table).flops(6);
}

}  // namespace

const OpFacts kPositions{.name = "positions",
                         .attributes = blank<std::monostate>,
                         .takes = {1},
                         .gives = {1},
                         .shapes = positions_shapes,
                         .factors = positions_factors,
                         .gradient = kNoGradient};
const OpFacts kCrossEntropy{.name = "cross_entropy",
                            .attributes = blank<CrossEntropyOf>,
                            .takes = {3},
                            .gives = {1, 2},
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
                                .kernel = KernelKind::norm,
                                .lies_in = over_first};
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
                                    .gives = {1, 2},
                                    .shapes = cross_entropy_of_scores_shapes,
                                    .factors = cross_entropy_of_scores_factors,
                                    .gradient = kNoGradient};
const OpFacts kVocabLoss{.name = "vocab_loss",
                         .attributes = blank<VocabLossOf>,
                         .takes = {4, 5},
                         .gives = {1, 4},
                         .shapes = vocab_loss_shapes,
                         .factors = vocab_loss_factors,
                         .gradient = kNoGradient,
                         .kernel = KernelKind::product,
                         .sums_wide = 2};

const OpFacts kVocabLogs{.name = "vocab_logs",
                         .attributes = blank<VocabLossOf>,
                         .takes = {3},
                         .gives = {2},
                         .shapes = vocab_logs_shapes,
                         .factors = vocab_logs_factors,
                         .gradient = kNoGradient,
                         .kernel = KernelKind::product};
const OpFacts kVocabLossGrad{.name = "vocab_loss_grad",
                             .attributes = blank<VocabLossOf>,
                             .takes = {6},
                             .gives = {2},
                             .shapes = vocab_loss_grad_shapes,
                             .factors = vocab_loss_grad_factors,
                             .gradient = kNoGradient,
                             .kernel = KernelKind::product,
                             .sums_wide = 1};

}  // namespace moesh::graph::ops
