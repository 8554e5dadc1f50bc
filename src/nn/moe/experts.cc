// Shape suffixes: E experts, M embedding, F width.
#include "nn/moe/experts.h"

#include "nn/mlp.h"
#include "sharding/labels.h"

namespace moesh::nn {

Experts experts(Builder& builder, const Context& context) {
  const std::int64_t count = context.model.moe.experts;
  const std::int64_t width = context.model.moe.mlp_dim;
  const std::int64_t emb = context.model.emb_dim;
  const Labels in_labels{labels::exp, labels::embed_moe, labels::mlp_moe};
  const Labels out_labels{labels::exp, labels::mlp_moe, labels::embed_moe};
  Experts e;
  // The expert dim counts as an input at initialisation.
  e.wi_0 = kernel(builder, context, "wi_0", {count, emb, width}, in_labels, moe_fan_in(context, count * width));
  e.wi_1 = kernel(builder, context, "wi_1", {count, emb, width}, in_labels, moe_fan_in(context, count * width));
  e.wo = kernel(builder, context, "wo", {count, width, emb}, out_labels, moe_fan_in(context, count * emb));
  if (!context.model.moe.bias) return e;
  e.wi_0_bias = kernel(builder, context, "wi_0_bias", {count, width}, {labels::exp, labels::activation_mlp}, zeros());
  e.wi_1_bias = kernel(builder, context, "wi_1_bias", {count, width}, {labels::exp, labels::activation_mlp}, zeros());
  e.wo_bias = kernel(builder, context, "wo_bias", {count, emb}, {labels::exp, labels::activation_embed}, zeros());
  return e;
}

Tensor expert_gate(const Context& context, Tensor a, Tensor b) {
  if (context.model.block != config::Block::gpt_oss) return gate(context, a, b);
  // gpt-oss: the gate is clamped from above, the other half on both sides; (b + 1) * a * sigmoid(1.702 a).
  const double limit = context.settings.real("mlp_activations_limit");
  if (limit > 0) {
    a = unary(graph::Unary::clamp, a, -1e30, limit);
    b = unary(graph::Unary::clamp, b, -limit, limit);
  }
  const Tensor swish = multiply(a, unary(graph::Unary::sigmoid, scale(a, 1.702)));
  return multiply(swish, unary(graph::Unary::offset, b, 1));
}

}  // namespace moesh::nn
