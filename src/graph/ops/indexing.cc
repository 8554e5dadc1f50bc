// DeepSeek's sparse attention: narrow heads, the indexer, score the keys for each query, which then sees those with the best scores.
// Shape suffixes: B rows, S queries, T keys, H heads, D a head's width.
#include <algorithm>

#include "graph/ops/ops.h"
#include "graph/ops/table.h"

namespace moesh::graph::ops {
namespace {

std::string detach_shapes(const NodeView& v) { return all_like(v, v.operand(0)) ? "" : "the value itself"; }

void detach_factors(const NodeView& v, FactorTable& table) { table.alike(table.own(v.operand(0).shape)).linear_in({0}); }

bool are_scores(const Value& scores, const Shape& shape, DType dtype) { return scores.shape == shape && scores.dtype == wide_of(dtype); }

// Whether the first operands are query [B, S, H, D], key [B, T, D], weights [B, S, H] and order [B, S].
bool are_indexed(const NodeView& v) {
  const Shape &q = v.operand(0).shape, &k = v.operand(1).shape;
  const DType dtype = v.operand(0).dtype;
  return q.size() == 4 && k.size() == 3 && k[0] == q[0] && k[2] == q[3] && v.operand(1).dtype == dtype && is_floating(dtype) &&
         are_scores(v.operand(2), first_sizes(q, 3), dtype) && v.operand(3).shape == first_sizes(q, 2) &&
         v.operand(3).dtype == DType::int32;
}

Shape scores_of(const NodeView& v) { return {v.operand(0).shape[0], v.operand(0).shape[1], v.operand(1).shape[1]}; }

std::string index_scores_shapes(const NodeView& v) {
  const bool fits = are_indexed(v) && are_scores(v.result(0), scores_of(v), v.operand(0).dtype) && v.of<IndexScoresOf>().tokens_of_key > 0;
  return fits ? "" : "queries [B, S, H, D], keys [B, T, D], weights [B, S, H] in the wide type, and order [B, S]";
}

std::string index_scores_grad_shapes(const NodeView& v) {
  const bool fits = are_indexed(v) && are_scores(v.operand(4), scores_of(v), v.operand(0).dtype) && is_like(v.operand(0), v.result(0)) &&
                    is_like(v.operand(1), v.result(1)) && is_like(v.operand(2), v.result(2));
  return fits ? "" : "what index_scores takes, and its cotangent";
}

// The average number of keys that a query scores: all, or those up to its own; a single new token is behind all that are kept.
double keys_scored(const NodeView& v) {
  const auto& of = v.of<IndexScoresOf>();
  const std::int64_t queries = v.operand(0).shape[1], tokens = of.tokens_of_key;
  const bool is_causal = of.keys_by_place && queries > 1;
  return is_causal ? static_cast<double>(queries + 1) / static_cast<double>(2 * tokens) : static_cast<double>(v.operand(1).shape[1]);
}

// The share of keys that some query scores.
double index_keys_read(const NodeView& v, std::size_t operand) {
  const auto& of = v.of<IndexScoresOf>();
  const std::int64_t queries = v.operand(0).shape[1], keys = v.operand(1).shape[1];
  if (operand != 1 || !of.keys_by_place || queries == 1) return 1;
  return std::min(1.0, static_cast<double>(queries) / static_cast<double>(keys * of.tokens_of_key));
}

// Each device scores all keys of its rows; scores add up over heads.
void spread_scores(const NodeView& v, bool backward, FactorTable& table) {
  const Shape& q = v.operand(0).shape;
  const int b = table.factor(q[0]), s = table.factor(q[1]), h = table.factor(q[2]);
  const std::vector<int> queries{b, s, h, kWhole}, keys{b, kWhole, kWhole}, weights{b, s, h}, scores{b, s, kWhole};
  table.takes(queries).takes(keys).takes(weights).takes({b, s});
  if (backward) table.takes(scores).gives(queries).gives(keys).gives(weights).linear_in({4});
  else table.gives(scores).linear_in({2});
  table.flops((backward ? 6 : 2) * static_cast<double>(q[3]) * keys_scored(v));
}

void index_scores_factors(const NodeView& v, FactorTable& table) { spread_scores(v, false, table); }
void index_scores_grad_factors(const NodeView& v, FactorTable& table) { spread_scores(v, true, table); }

std::vector<Tensor> index_scores_gradient(const Vjp& v) {
  std::vector<Tensor> inputs = v.operands;
  inputs.push_back(v.dy());
  std::vector<Tensor> made = v.grad(Op::index_scores_grad, inputs, {v.operands[0], v.operands[1], v.operands[2]});
  made.emplace_back();
  return made;
}

std::string choose_keys_shapes(const NodeView& v) {
  const Shape& scores = v.operand(0).shape;
  const DType dtype = v.operand(0).dtype;
  const bool is_wide = is_floating(dtype) && dtype == wide_of(dtype);
  const auto& of = v.of<ChooseKeysOf>();
  bool fits = scores.size() == 3 && is_wide && of.keys > 0 && of.tokens_of_key > 0 && are_chosen_keys(v.result(0), scores);
  for (std::size_t i = 1; fits && i < 5; ++i) {
    fits = v.operand(i).shape == Shape{scores[0], scores[i < 3 ? 1 : 2]} && v.operand(i).dtype == DType::int32;
  }
  return fits ? "" : "scores [B, S, T], order and segments [B, S], and those of the keys [B, T]";
}

void choose_keys_factors(const NodeView& v, FactorTable& table) {
  const Shape& scores = v.operand(0).shape;
  const int b = table.factor(scores[0]), s = table.factor(scores[1]);
  table.takes({b, s, kWhole}).takes({b, s}).takes({b, s}).takes({b, kWhole}).takes({b, kWhole}).gives({b, s, kWhole});
}

std::string chosen_rows_shapes(const NodeView& v) {
  const Shape& chosen = v.operand(0).shape;
  const std::int64_t first = v.of<ChosenRowsOf>().first;
  bool fits = v.results() + 1 == v.operands() && chosen.size() == 3 && chosen[1] == 1 && v.operand(1).shape.size() >= 2 &&
              v.result(0).shape.size() >= 2 && first >= 0 && first <= std::min(v.operand(1).shape[1], v.result(0).shape[1]);
  for (std::size_t i = 1; fits && i < v.operands(); ++i) {
    const Value &rows = v.operand(i), &made = v.result(i - 1);
    Shape wanted = rows.shape;
    if (wanted.size() < 2) return "rows [B, T, ...]";
    wanted[1] = v.result(0).shape[1];
    fits = are_chosen_keys(v.operand(0), {rows.shape[0], 1, v.operand(1).shape[1] - first}) && rows.shape[1] == v.operand(1).shape[1] &&
           made.shape == wanted && made.dtype == rows.dtype && (is_floating(rows.dtype) || rows.dtype == DType::int32);
  }
  return fits ? "" : "keys chosen for one query, and rows [B, T, ...]";
}

// The batch may be sharded, and what each row consists of if there is one kind of rows: what others consist of lacks its factors.
void chosen_rows_factors(const NodeView& v, FactorTable& table) {
  const int b = table.factor(v.operand(0).shape[0]);
  const bool are_alone = v.results() == 1;
  table.takes({b, kWhole, kWhole});
  for (std::size_t i = 1; i < v.operands(); ++i) {
    const Shape& rows = v.operand(i).shape;
    std::vector<int> dims{b, kWhole};
    for (std::size_t dim = 2; dim < rows.size(); ++dim) dims.push_back(are_alone ? table.factor(rows[dim]) : kWhole);
    table.takes(dims).gives(dims);
  }
}

double chosen_rows_read(const NodeView& v, std::size_t operand) {
  if (operand == 0) return 1;
  return std::min(1.0, static_cast<double>(v.result(0).shape[1]) / static_cast<double>(v.operand(1).shape[1]));
}

std::string attention_shares_shapes(const NodeView& v) {
  const Shape &q = v.operand(0).shape, &k = v.operand(1).shape;
  const bool are_heads = q.size() == 4 && k.size() == 4 && k[0] == q[0] && k[2] == q[2] && k[3] == q[3];
  const bool fits = are_heads && v.operand(0).dtype == v.operand(1).dtype && are_chosen_keys(v.operand(2), {q[0], q[1], k[1]}) &&
                    are_scores(v.result(0), {q[0], q[1], k[1]}, v.operand(0).dtype);
  return fits ? "" : "queries [B, S, H, D], keys [B, T, H, D] and chosen keys";
}

void attention_shares_factors(const NodeView& v, FactorTable& table) {
  const Shape& q = v.operand(0).shape;
  const int b = table.factor(q[0]), s = table.factor(q[1]), h = table.factor(q[2]);
  table.takes({b, s, h, kWhole}).takes({b, kWhole, h, kWhole}).takes({b, s, kWhole}).gives({b, s, kWhole});
  table.flops(static_cast<double>(q[3] * (v.operand(1).shape[1] + 1)));  // of the keys up to a query's own
}

bool are_compared(const NodeView& v) {
  const Value& scores = v.operand(0);
  const bool is_wide = is_floating(scores.dtype) && scores.dtype == wide_of(scores.dtype);
  return scores.shape.size() == 3 && is_wide && is_like(v.operand(1), scores) &&
         are_chosen_keys(v.operand(2), scores.shape);
}

std::string index_loss_shapes(const NodeView& v) {
  const Value& scores = v.operand(0);
  const bool fits = are_compared(v) && v.result(0).shape == first_sizes(scores.shape, 2) && v.result(0).dtype == scores.dtype;
  return fits ? "" : "scores and shares [B, S, T], and chosen keys";
}

std::string index_loss_grad_shapes(const NodeView& v) {
  const bool fits = are_compared(v) && v.operand(3).shape == first_sizes(v.operand(0).shape, 2) && is_like(v.operand(0), v.result(0));
  return fits ? "" : "what index_loss takes, and its cotangent";
}

void index_loss_factors(const NodeView& v, FactorTable& table) {
  const std::vector<int> scores = table.own_but(v.operand(0).shape, {2});
  table.takes(scores).takes(scores).takes(scores).gives(first_dims(scores, 2));
}

void index_loss_grad_factors(const NodeView& v, FactorTable& table) {
  const std::vector<int> scores = table.own_but(v.operand(0).shape, {2});
  table.takes(scores).takes(scores).takes(scores).takes(first_dims(scores, 2)).gives(scores).linear_in({3});
}

std::vector<Tensor> index_loss_gradient(const Vjp& v) {
  return {v.grad(Op::index_loss_grad, {v.operands[0], v.operands[1], v.operands[2], v.dy()}, {v.operands[0]})[0], {}, {}};
}

}  // namespace

const OpFacts kDetach{.name = "detach",
                      .attributes = blank<std::monostate>,
                      .takes = {1},
                      .gives = {1},
                      .shapes = detach_shapes,
                      .factors = detach_factors,
                      .gradient = nothing_flows_back,
                      .becomes = Becomes::alias,
                      .keeps_dims = true,
                      .is_cheap = true};
const OpFacts kIndexScores{.name = "index_scores",
                           .attributes = blank<IndexScoresOf>,
                           .takes = {4},
                           .gives = {1},
                           .shapes = index_scores_shapes,
                           .factors = index_scores_factors,
                           .gradient = index_scores_gradient,
                           .kernel = KernelKind::attention,
                           .part_read = index_keys_read};
const OpFacts kIndexScoresGrad{.name = "index_scores_grad",
                               .attributes = blank<IndexScoresOf>,
                               .takes = {5},
                               .gives = {3},
                               .shapes = index_scores_grad_shapes,
                               .factors = index_scores_grad_factors,
                               .gradient = kNoGradient,
                               .kernel = KernelKind::attention,
                               .part_read = index_keys_read};
const OpFacts kChooseKeys{.name = "choose_keys",
                          .attributes = blank<ChooseKeysOf>,
                          .takes = {5},
                          .gives = {1},
                          .shapes = choose_keys_shapes,
                          .factors = choose_keys_factors,
                          .gradient = kNoGradient,
                          .kernel = KernelKind::norm};
const OpFacts kChosenRows{.name = "chosen_rows",
                          .attributes = blank<ChosenRowsOf>,
                          .takes = {2, kMany},
                          .gives = {1, kMany},
                          .shapes = chosen_rows_shapes,
                          .factors = chosen_rows_factors,
                          .gradient = kNoGradient,
                          .kernel = KernelKind::rows,
                          .part_read = chosen_rows_read};
const OpFacts kAttentionShares{.name = "attention_shares",
                               .attributes = blank<std::monostate>,
                               .takes = {3},
                               .gives = {1},
                               .shapes = attention_shares_shapes,
                               .factors = attention_shares_factors,
                               .gradient = kNoGradient,
                               .kernel = KernelKind::attention};
const OpFacts kIndexLoss{.name = "index_loss",
                         .attributes = blank<std::monostate>,
                         .takes = {3},
                         .gives = {1},
                         .shapes = index_loss_shapes,
                         .factors = index_loss_factors,
                         .gradient = index_loss_gradient,
                         .kernel = KernelKind::norm};
const OpFacts kIndexLossGrad{.name = "index_loss_grad",
                             .attributes = blank<std::monostate>,
                             .takes = {4},
                             .gives = {1},
                             .shapes = index_loss_grad_shapes,
                             .factors = index_loss_grad_factors,
                             .gradient = kNoGradient,
                             .kernel = KernelKind::norm};

}  // namespace moesh::graph::ops
