// Qwen2 with experts: some layers are dense, and a gate weights the shared expert's result for each token.
#include "models/family.h"
#include "nn/mlp.h"
#include "nn/moe/moe.h"
#include "sharding/labels.h"

namespace moesh::models {
namespace {

Tensor qwen2_moe_share(Builder& builder, const Context& context, Tensor h_BSM) {
  const graph::Scope scope(builder, "shared_expert_gate");
  const Tensor weight_M =
      nn::parameter(builder, context, "kernel", {context.model.emb_dim},
                    {{labels::embed}, nn::moe_fan_in(context, context.model.emb_dim), nn::Role::shared_expert_gate});
  return share_of_token(h_BSM, weight_M);
}

LayerResult qwen2_moe_experts(Builder& builder, const Context& context, Tensor h, const Tokens& tokens) {
  LayerResult made = routed_experts(builder, context, "moe_block", h, tokens, labels::embed);
  if (context.model.moe.shared_experts == 0) return made;
  const Tensor shared = nn::shared_experts(builder, context, h, context.model.moe.shared_dim);
  made.x = add(made.x, multiply(shared, qwen2_moe_share(builder, context, h)));
  return made;
}

LayerResult qwen2_moe_layer(Builder& builder, const Context& context, Tensor x, const Tokens& tokens, std::int64_t position) {
  return mixed_layer(builder, context, x, tokens, position, [&](Tensor h) { return qwen2_moe_experts(builder, context, h, tokens); });
}

}  // namespace

std::vector<LayerGroup> qwen2_moe_layers(const Context& context) {
  return one_group(context, qwen2_moe_layer);
}

}  // namespace moesh::models
