// Qwen3-Next and Qwen3.5: linear attention, but in every n-th layer attention whose result is gated; in all layers experts, and a gate that
// weights the shared expert's result for each token.
#include "models/family.h"
#include "nn/attention.h"
#include "nn/delta_net.h"
#include "nn/mlp.h"
#include "sharding/labels.h"

namespace moesh::models {
namespace {

// As in MaxText, the gate's kernel is float32 whatever the other weights are.
Tensor qwen3_next_share(Builder& builder, const Context& context, Tensor h_BSM) {
  const graph::Scope scope(builder, "shared_expert_gate");
  const std::int64_t width = context.model.emb_dim;
  const Tensor weight_M1 = builder.parameter("kernel", {width, 1}, DType::float32,
                                             {{labels::embed, labels::none}, nn::moe_fan_in(context, width), nn::Role::shared_expert_gate});
  return share_of_token(h_BSM, reshape(cast(weight_M1, h_BSM.dtype()), {width}));
}

LayerResult mixed_experts(Builder& builder, const Context& context, Tensor h, const Tokens& tokens) {
  const graph::Scope scope(builder, "mlp");
  LayerResult made = routed_experts(builder, context, "routed_experts", h, tokens, labels::embed);
  const Tensor shared = nn::shared_experts(builder, context, h, context.model.moe.shared_dim, "shared_expert");
  made.x = add(made.x, multiply(shared, qwen3_next_share(builder, context, h)));
  return made;
}

Tensor attend(Builder& builder, const Context& context, Tensor h, const Tokens& tokens, const config::LayerShape& shape) {
  if (shape.is_linear) return nn::delta_net(builder, context, "attention", h, tokens);
  const graph::Scope scope(builder, "attention");
  return nn::attention(builder, context, "attention", h, tokens, shape);
}

LayerResult qwen3_next_layer(Builder& builder, const Context& context, Tensor x, const Tokens& tokens, std::int64_t position) {
  const config::LayerShape& shape = context.model.layer(position);
  return residual_layer(builder, context, x,
                        {[&](Tensor h) { return attend(builder, context, h, tokens, shape); },
                         [&](Tensor h) { return mixed_experts(builder, context, h, tokens); },
                         {.before_attention = "input_layernorm", .before_mlp = "post_attention_layernorm"}});
}

}  // namespace

std::vector<LayerGroup> qwen3_next_layers(const Context& context) {
  std::vector<LayerGroup> groups = one_group(context, qwen3_next_layer);
  groups.front().member = "layer_";
  return groups;
}

}  // namespace moesh::models
