// Every expert computes every token, and the weights select among the results: the reference that the other strategies are tested against.
// Shape suffixes: B rows, S length, M embedding, E experts, F width.
#include "nn/mlp.h"
#include "nn/moe/moe.h"
#include "sharding/labels.h"

namespace moesh::nn {
namespace {

Tensor add_expert_bias(Tensor x_BSEF, Tensor bias_EF) { return bias_EF ? add_bias(x_BSEF, bias_EF) : x_BSEF; }

}  // namespace

MoeResult dense_moe(Builder& builder, const Context& context, Tensor x_BSM, Scores scores, const Experts& e) {
  const config::ModelShape& model = context.model;
  scores = constrain_scores(context, scores, {labels::activation_batch_moe, labels::activation_length_moe, labels::none});
  const Routed routed = route(builder, context, scores);
  // If an expert's inputs are weighted, the results of its input projections are weighted instead, which is the same because these have no
  // bias.
  const bool weights_inputs = model.moe.weights_inputs;
  const Tensor factors_BSE = weights_inputs ? spread(builder, context, routed) : Tensor{};
  const Routed alike{weights_inputs ? graph::fill(builder, 1, routed.weights.shape(), routed.weights.dtype()) : routed.weights, routed.ids};
  const Tensor weights_BSE = spread(builder, context, alike);
  const auto project = [&](const char* name, Tensor weights, Tensor bias) {
    const Tensor made_BSEF = add_expert_bias(einsum(name, "bsm,emf->bsef", x_BSM, weights), bias);
    const Tensor scaled_BSEF = weights_inputs ? multiply(made_BSEF, broadcast(factors_BSE, made_BSEF.shape(), {0, 1, 2})) : made_BSEF;
    return wide_activation(context, scaled_BSEF);
  };
  x_BSM = constrain("inputs", x_BSM,
                    {labels::activation_batch_moe, labels::activation_norm_length_moe, labels::activation_embed_moe});
  const Tensor a_BSEF = tag(project("wi_0", e.wi_0, e.wi_0_bias), "moe_mlpwi_0");
  const Tensor b_BSEF = tag(project("wi_1", e.wi_1, e.wi_1_bias), "moe_mlpwi_1");
  const Tensor hidden_BSEF = cast(expert_gate(context, a_BSEF, b_BSEF), model.compute_dtype);
  const Tensor out_BSEM = tag(add_expert_bias(einsum("wo", "bsef,efm->bsem", hidden_BSEF, e.wo), e.wo_bias), "moe_mlpwo");
  const DType sum_dtype = context.settings.boolean("float32_weight_sum") ? DType::float32 : model.compute_dtype;
  const Tensor out_BSM =
      einsum("combine", "bsem,bse->bsm", cast(out_BSEM, sum_dtype), cast(weights_BSE, sum_dtype));
  return result_of(builder, context, cast(out_BSM, model.compute_dtype), scores, routed, {});
}

}  // namespace moesh::nn
