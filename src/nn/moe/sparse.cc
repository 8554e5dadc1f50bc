// Rows sorted by expert and multiplied in groups, in a region whose collectives are spelled out: tokens are gathered over
// the expert axis (ring) or exchanged (all-to-all).
#include "nn/moe/moe.h"
#include "sharding/labels.h"

namespace moesh::nn {
namespace {

// Weights enter whole but for the experts' own axis and tensor parallelism: what fsdp shards is gathered before.
Tensor constrain_weight(const std::string& name, Tensor weight, Labels labels) {
  return constrain(name, weight, graph::ConstraintOf{std::move(labels), false, {"fsdp"}, {}, false});
}

Experts constrain_weights(const Experts& e) {
  const Labels in_labels{labels::exp, labels::none, labels::mlp_no_fsdp};
  const Labels out_labels{labels::exp, labels::mlp_no_fsdp, labels::none};
  Experts laid = e;
  laid.wi_0 = constrain_weight("w0_kernel", e.wi_0, in_labels);
  laid.wi_1 = constrain_weight("w1_kernel", e.wi_1, in_labels);
  laid.wo = constrain_weight("wo_kernel", e.wo, out_labels);
  if (!e.wo_bias) return laid;
  laid.wi_0_bias = constrain("w0_bias", e.wi_0_bias, {labels::exp, labels::activation_mlp});
  laid.wi_1_bias = constrain("w1_bias", e.wi_1_bias, {labels::exp, labels::activation_mlp});
  laid.wo_bias = constrain("wo_bias", e.wo_bias, {labels::exp, labels::activation_embed});
  return laid;
}

}  // namespace

MoeResult sparse_moe(Builder& builder, const Context& context, Tensor x_BSM, Scores scores, const Experts& e) {
  // A lone row cannot be shared out over the expert axis, so it is whole on all its devices.
  const char* batch = context.rows > 1 ? labels::activation_batch : "decode_batch_moe";
  const Labels token_labels{batch, labels::activation_norm_length, labels::none};
  x_BSM = constrain("inputs", x_BSM, token_labels);
  scores = constrain_scores(context, scores, token_labels);
  const Experts laid = constrain_weights(e);

  std::vector<Tensor> operands{x_BSM, scores.choosing, laid.wi_0, laid.wi_1, laid.wo};
  if (laid.wo_bias) operands.insert(operands.end(), {laid.wi_0_bias, laid.wi_1_bias, laid.wo_bias});
  if (scores.weighing.id != scores.choosing.id) operands.push_back(scores.weighing);
  using Kind = graph::RegionOf::Kind;
  graph::RegionOf of{context.model.moe.ring ? Kind::ring : Kind::all_to_all, routing_of(context),
                     context.model.moe.experts, context.model.mlp_activations,
                     context.settings.real("load_balance_loss_weight")};
  std::vector<std::pair<Shape, DType>> results{{x_BSM.shape(), context.model.compute_dtype}};
  if (of.balance_loss_weight > 0) results.emplace_back(Shape{}, DType::float32);
  const std::vector<Tensor> made = builder.add(graph::Op::region, "experts", operands, of, results);
  const Tensor out = constrain("output", made[0], {batch, labels::activation_norm_length, labels::activation_embed});
  return {out, made.size() > 1 ? made[1] : Tensor{}, {}};
}

}  // namespace moesh::nn
