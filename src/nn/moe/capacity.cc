// Each expert has a fixed number of slots for each row of the batch; tokens beyond them are dropped.
// Shape suffixes: B rows, S length, M embedding, E experts, C slots, F width.
#include <algorithm>

#include "base/rounding.h"
#include "nn/mlp.h"
#include "nn/moe/moe.h"
#include "sharding/labels.h"

namespace moesh::nn {
namespace {

std::int64_t slots(const Context& context) {
  const config::MoeShape& moe = context.model.moe;
  const std::int64_t chosen = context.length * moe.experts_per_token;
  const double fair_share = static_cast<double>(divide_up(chosen, moe.experts));
  return std::max<std::int64_t>(
      1, static_cast<std::int64_t>(std::max(fair_share * moe.capacity_factor, moe.capacity_factor)));
}

Tensor slot_mask(Builder& builder, const Context& context, const std::string& name, const std::vector<Tensor>& operands) {
  const graph::SlotMaskOf of{context.model.moe.experts, slots(context)};
  const Tensor mask = builder.add_one(graph::Op::slot_mask, name, operands, of,
                                      {context.rows, context.length, of.experts, of.capacity},
                                      context.model.compute_dtype);
  return constrain(name + "_mask", mask,
                   {labels::activation_batch_moe, labels::activation_norm_length_moe, labels::none, labels::none});
}

// Constrains a value of slots, [E, B, C, ...]. The rules may give the expert axis to both E and B. By the order of the rules B may win it,
// which leaves E whole, so that every expert's weights have to be gathered; once the axis is peeled off B, it stays with E.
Tensor constrain_slots(const Context& context, const std::string& name, Tensor x, const char* last, bool peel) {
  graph::ConstraintOf of{{labels::activation_exp, labels::activation_batch_moe, labels::none, last}};
  if (peel && context.model.moe.peel_dispatch) {
    of.each_dim_alone = true;
    of.peeled = {"expert"};
    of.peeled_dims = {1};
  }
  return constrain(name, x, std::move(of));
}

// If the experts are sharded, the weight is constrained in the compute type, so that its other dims are gathered in that type.
Tensor constrain_kernel(const Context& context, const std::string& name, Tensor weight, Labels labels) {
  return context.expert_shards > 1 ? constrain(name, weight, of_weight({std::move(labels)})) : weight;
}

struct BatchedProduct {
  std::string name;
  std::string equation;
  Labels kernel_labels;
};

Tensor multiply_batched(const Context& context, const BatchedProduct& p, Tensor x, Tensor weight, Tensor bias) {
  weight = constrain_kernel(context, p.name + "_kernel", weight, p.kernel_labels);
  Tensor out = einsum(p.name, p.equation, x, weight);
  if (bias) out = add(out, broadcast(bias, out.shape(), {0, 3}));
  return wide_activation(context, out);
}

// The number of choices beyond the slots that an expert has for a row.
Tensor dropped_choices(Builder& builder, const Context& context, const Routed& routed) {
  const Tensor choices_BE = choices(builder, context, routed);
  const Tensor beyond_BE = unary(graph::Unary::offset, choices_BE, -static_cast<double>(slots(context)));
  return reduce(graph::Reduction::sum, unary(graph::Unary::relu, beyond_BE), {0, 1});
}

}  // namespace

MoeResult capacity_moe(Builder& builder, const Context& context, Tensor x_BSM, Scores scores, const Experts& e) {
  scores = constrain_scores(scores, {labels::activation_batch_moe, labels::activation_length_moe, labels::none});
  const Routed routed = route(builder, context, scores);
  const std::vector<Tensor> plain{routed.ids}, weighted{routed.ids, routed.weights};
  const bool weights_inputs = context.model.moe.weights_inputs;
  const Tensor dispatch_BSEC = slot_mask(builder, context, "dispatch", weights_inputs ? weighted : plain);
  const Tensor combine_BSEC = slot_mask(builder, context, "combine", weights_inputs ? plain : weighted);

  Tensor x_EBCM = einsum("dispatch", "bsm,bsec->ebcm", x_BSM, dispatch_BSEC);
  x_EBCM = constrain_slots(context, "dispatched", x_EBCM, labels::activation_embed_moe, true);
  const Labels in_labels{labels::exp, labels::none, labels::mlp};
  Tensor a_EBCF = multiply_batched(context, {"wi_0", "ebcm,emf->ebcf", in_labels}, x_EBCM, e.wi_0, e.wi_0_bias);
  Tensor b_EBCF = multiply_batched(context, {"wi_1", "ebcm,emf->ebcf", in_labels}, x_EBCM, e.wi_1, e.wi_1_bias);
  a_EBCF = tag(constrain_slots(context, "hidden_0", a_EBCF, labels::activation_mlp, true), "moe_mlpwi_0");
  b_EBCF = tag(constrain_slots(context, "hidden_1", b_EBCF, labels::activation_mlp, true), "moe_mlpwi_1");
  const Tensor hidden_EBCF = cast(expert_gate(context, a_EBCF, b_EBCF), context.model.compute_dtype);
  Tensor out_EBCM = multiply_batched(context, {"wo", "ebcf,efm->ebcm", {labels::exp, labels::mlp, labels::none}}, hidden_EBCF,
                            e.wo, e.wo_bias);
  // The expert axis is not peeled off the result of the last projection, whatever moe_dispatch_no_expert_sharding says.
  out_EBCM = tag(constrain_slots(context, "intermediate", out_EBCM, labels::activation_embed_moe, false), "moe_mlpwo");
  const Tensor out_BSM = einsum("combine", "ebcm,bsec->bsm", cast(out_EBCM, combine_BSEC.dtype()), combine_BSEC);
  return result_of(builder, context, out_BSM, scores, routed, dropped_choices(builder, context, routed));
}

}  // namespace moesh::nn
