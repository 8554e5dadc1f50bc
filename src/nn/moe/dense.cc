// Every expert computes every token, and the weights select among them: the reference that the other strategies are tested against.
// Shape suffixes: B rows, S length, M embedding, E experts, F width.
#include "nn/mlp.h"
#include "nn/moe/moe.h"
#include "sharding/labels.h"

namespace moesh::nn {
namespace {

Tensor add_expert_bias(Tensor x_BSEF, Tensor bias_EF) { return bias_EF ? add_bias(x_BSEF, bias_EF) : x_BSEF; }

// Tokens that choose one expert each, multiplied with its weight.
Tensor weighted_by_one(Tensor x_BSM, Tensor weights_BSK) {
  const Tensor weights_BS = reshape(cast(weights_BSK, x_BSM.dtype()), {x_BSM.size(0), x_BSM.size(1)});
  return multiply(x_BSM, broadcast(weights_BS, x_BSM.shape(), {0, 1}));
}

// If the weights are applied before the down projection, the projection sums over experts too, and no value has both E and M.
Tensor sum_of_experts(const Context& context, Tensor hidden_BSEF, Tensor weights_BSE, const Experts& e) {
  const DType compute_dtype = context.model.compute_dtype;
  if (context.model.moe.weights_results()) {
    const DType sum_dtype = context.settings.boolean("float32_weight_sum") ? DType::float32 : compute_dtype;
    const Tensor out_BSEM =
        tag(add_expert_bias(einsum("wo", "bsef,efm->bsem", cast(hidden_BSEF, compute_dtype), e.wo), e.wo_bias), "moe_mlpwo");
    return cast(einsum("combine", "bsem,bse->bsm", cast(out_BSEM, sum_dtype), cast(weights_BSE, sum_dtype)), compute_dtype);
  }
  const Tensor weighted_BSEF = multiply(hidden_BSEF, broadcast(cast(weights_BSE, hidden_BSEF.dtype()), hidden_BSEF.shape(), {0, 1, 2}));
  const Tensor out_BSM = tag(einsum("wo", "bsef,efm->bsm", cast(weighted_BSEF, compute_dtype), e.wo), "moe_mlpwo");
  return e.wo_bias ? add(out_BSM, einsum("wo_bias", "bse,em->bsm", cast(weights_BSE, e.wo_bias.dtype()), e.wo_bias)) : out_BSM;
}

}  // namespace

MoeResult dense_moe(Builder& builder, const Context& context, Tensor x_BSM, Scores scores, const Experts& e) {
  const config::ModelShape& model = context.model;
  scores = constrain_scores(scores, {labels::activation_batch_moe, labels::activation_length_moe, labels::none});
  const Routed routed = route(builder, context, scores);
  const bool weights_inputs = model.moe.weights_inputs;
  const Routed alike{weights_inputs ? graph::fill(builder, 1, routed.weights.shape(), routed.weights.dtype()) : routed.weights, routed.ids};
  const Tensor weights_BSE = spread(builder, context, alike);
  if (weights_inputs && routed.weights.size(2) == 1) x_BSM = weighted_by_one(x_BSM, routed.weights);
  // If a token's experts have inputs of different weights, the results of their input projections are weighted instead, which is the same
  // because these have no bias.
  const bool weights_projections = weights_inputs && routed.weights.size(2) > 1;
  const Tensor factors_BSE = weights_projections ? spread(builder, context, routed) : Tensor{};
  const auto project = [&](const char* name, Tensor weights, Tensor bias) {
    const Tensor made_BSEF = add_expert_bias(einsum(name, "bsm,emf->bsef", x_BSM, weights), bias);
    const Tensor scaled_BSEF = weights_projections ? multiply(made_BSEF, broadcast(factors_BSE, made_BSEF.shape(), {0, 1, 2})) : made_BSEF;
    return wide_activation(context, scaled_BSEF);
  };
  x_BSM = constrain("inputs", x_BSM,
                    {labels::activation_batch_moe, labels::activation_norm_length_moe, labels::activation_embed_moe});
  const Tensor a_BSEF = tag(project("wi_0", e.wi_0, e.wi_0_bias), "moe_mlpwi_0");
  const Tensor b_BSEF = tag(project("wi_1", e.wi_1, e.wi_1_bias), "moe_mlpwi_1");
  const Tensor out_BSM = sum_of_experts(context, expert_gate(context, a_BSEF, b_BSEF), weights_BSE, e);
  return result_of(builder, context, out_BSM, scores, routed, {});
}

}  // namespace moesh::nn
