#include "graph/facts.h"

#include <cassert>

#include <fmt/core.h>

#include "base/error.h"
#include "graph/ops/ops.h"
#include "graph/ops/table.h"

namespace moesh::graph {

const OpFacts& facts_of(Op op) {
  switch (op) {
    case Op::input: return ops::kInput;
    case Op::parameter: return ops::kParameter;
    case Op::einsum: return ops::kEinsum;
    case Op::unary: return ops::kUnary;
    case Op::binary: return ops::kBinary;
    case Op::cast: return ops::kCast;
    case Op::broadcast: return ops::kBroadcast;
    case Op::reduce: return ops::kReduce;
    case Op::reshape: return ops::kReshape;
    case Op::transpose: return ops::kTranspose;
    case Op::slice: return ops::kSlice;
    case Op::concat: return ops::kConcat;
    case Op::pad: return ops::kPad;
    case Op::fill: return ops::kFill;
    case Op::softmax: return ops::kSoftmax;
    case Op::rms_norm: return ops::kRmsNorm;
    case Op::rope: return ops::kRope;
    case Op::temper: return ops::kTemper;
    case Op::attention: return ops::kAttention;
    case Op::highest: return ops::kHighest;
    case Op::detach: return ops::kDetach;
    case Op::index_scores: return ops::kIndexScores;
    case Op::choose_keys: return ops::kChooseKeys;
    case Op::chosen_rows: return ops::kChosenRows;
    case Op::attention_shares: return ops::kAttentionShares;
    case Op::index_loss: return ops::kIndexLoss;
    case Op::causal_conv: return ops::kCausalConv;
    case Op::delta_rule: return ops::kDeltaRule;
    case Op::cache_write: return ops::kCacheWrite;
    case Op::embed: return ops::kEmbed;
    case Op::positions: return ops::kPositions;
    case Op::cross_entropy: return ops::kCrossEntropy;
    case Op::random_scores: return ops::kRandomScores;
    case Op::top_k: return ops::kTopK;
    case Op::give_experts: return ops::kGiveExperts;
    case Op::weigh: return ops::kWeigh;
    case Op::spread: return ops::kSpread;
    case Op::slot_mask: return ops::kSlotMask;
    case Op::slots: return ops::kSlots;
    case Op::fill_slots: return ops::kFillSlots;
    case Op::empty_slots: return ops::kEmptySlots;
    case Op::slot_products: return ops::kSlotProducts;
    case Op::expert_load: return ops::kExpertLoad;
    case Op::grouped_matmul: return ops::kGroupedMatmul;
    case Op::grouped_bias: return ops::kGroupedBias;
    case Op::constraint: return ops::kConstraint;
    case Op::stage_state: return ops::kStageState;
    case Op::repeat: return ops::kRepeat;
    case Op::region: return ops::kRegion;
    case Op::reshard: return ops::kReshard;
    case Op::vocab_scores: return ops::kVocabScores;
    case Op::vocab_logs: return ops::kVocabLogs;
    case Op::cross_entropy_of_scores: return ops::kCrossEntropyOfScores;
    case Op::row_dot: return ops::kRowDot;
    case Op::rms_norm_of_dots: return ops::kRmsNormOfDots;
    case Op::device_index: return ops::kDeviceIndex;
    case Op::gather: return ops::kGather;
    case Op::all_sum: return ops::kAllSum;
    case Op::own_once: return ops::kOwnOnce;
    case Op::sort_slots: return ops::kSortSlots;
    case Op::fetch_rows: return ops::kFetchRows;
    case Op::return_rows: return ops::kReturnRows;
    case Op::plan_exchange: return ops::kPlanExchange;
    case Op::exchange_rows: return ops::kExchangeRows;
    case Op::list_tokens: return ops::kListTokens;
    case Op::sum_rows: return ops::kSumRows;
    case Op::scatter_rows: return ops::kScatterRows;
    case Op::unary_grad: return ops::kUnaryGrad;
    case Op::chain: return ops::kChain;
    case Op::softmax_grad: return ops::kSoftmaxGrad;
    case Op::rms_norm_grad: return ops::kRmsNormGrad;
    case Op::rms_norm_grad_of_dots: return ops::kRmsNormGradOfDots;
    case Op::attention_grad: return ops::kAttentionGrad;
    case Op::index_scores_grad: return ops::kIndexScoresGrad;
    case Op::causal_conv_grad: return ops::kCausalConvGrad;
    case Op::delta_rule_grad: return ops::kDeltaRuleGrad;
    case Op::doubly_stochastic: return ops::kDoublyStochastic;
    case Op::doubly_stochastic_grad: return ops::kDoublyStochasticGrad;
    case Op::windows: return ops::kWindows;
    case Op::new_windows: return ops::kNewWindows;
    case Op::window_rows: return ops::kWindowRows;
    case Op::pool: return ops::kPool;
    case Op::pool_grad: return ops::kPoolGrad;
    case Op::index_loss_grad: return ops::kIndexLossGrad;
    case Op::embed_grad: return ops::kEmbedGrad;
    case Op::embed_add: return ops::kEmbedAdd;
    case Op::cross_entropy_grad: return ops::kCrossEntropyGrad;
    case Op::vocab_loss: return ops::kVocabLoss;
    case Op::vocab_loss_grad: return ops::kVocabLossGrad;
    case Op::top_k_grad: return ops::kTopKGrad;
    case Op::spread_grad: return ops::kSpreadGrad;
    case Op::grouped_outer: return ops::kGroupedOuter;
    case Op::grouped_sum: return ops::kGroupedSum;
    case Op::weighted_rows_grad: return ops::kWeightedRowsGrad;
    case Op::fetched_rows_grad: return ops::kFetchedRowsGrad;
    case Op::sum_squares: return ops::kSumSquares;
    case Op::adam_update: return ops::kAdamUpdate;
    case Op::sgd_update: return ops::kSgdUpdate;
    case Op::momentum_update: return ops::kMomentumUpdate;
    case Op::balance_update: return ops::kBalanceUpdate;
    case Op::clip_update: return ops::kClipUpdate;
    case Op::count_of_ops: break;
  }
  assert(false && "no op");
  return ops::kInput;
}

std::optional<ReshardOf::Kind> collective_of(Op op, const Attributes& attributes) {
  if (const auto* reshard = std::get_if<ReshardOf>(&attributes)) {
    return reshard->kind == ReshardOf::Kind::slice ? std::nullopt : std::optional(reshard->kind);
  }
  const auto* group = std::get_if<GroupOf>(&attributes);
  return group == nullptr || group->members == 1 ? std::nullopt : facts_of(op).collective;
}

std::string problem_of(const NodeView& view) {
  const OpFacts& facts = facts_of(view.node.op);
  const bool has_sum = adds(view.node);
  const bool counts_fit = facts.takes.hold(view.operands() - (has_sum ? 1 : 0)) && facts.gives.hold(view.results());
  if (!counts_fit || facts.attributes().index() != view.node.attributes.index()) return std::string(facts.name);
  if (has_sum && !is_like(view.operand(view.operands() - 1), view.result(0))) return "what it is added to";
  return facts.shapes(view);
}

ValueId summed_wide(const Node& node) {
  const int wide = facts_of(node.op).sums_wide;
  return wide >= 0 && static_cast<std::size_t>(wide) < node.results.size() ? node.results[static_cast<std::size_t>(wide)] : -1;
}

bool adds(const Node& node) { return facts_of(node.op).added_to + 1 == static_cast<int>(node.operands.size()) && !node.operands.empty(); }

std::string_view name_of(Op op) { return facts_of(op).name; }

std::vector<Tensor> Vjp::grad(Op op, const std::vector<Tensor>& inputs, const std::vector<Tensor>& like) const {
  std::vector<std::pair<Shape, DType>> shapes;
  for (const Tensor& tensor : like) shapes.emplace_back(tensor.shape(), tensor.dtype());
  return builder.add(op, "", inputs, node.attributes, shapes);
}

OpFactors factors_of(const Graph& graph, const Node& node) {
  const FactorRule rule = facts_of(node.op).factors;
  if (rule == nullptr) fail(fmt::format("{} cannot be spread over devices yet", name_of(node.op)), node.path);
  const NodeView view{graph, node};
  FactorTable table(view);
  rule(view, table);
  OpFactors factors = table.take();
  if (adds(node)) factors.operands.push_back(factors.results[0]);
  return factors;
}

}  // namespace moesh::graph
