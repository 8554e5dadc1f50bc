// Qwen2 with experts: some layers dense, and a shared expert whose result each token weighs by a gate of its own.
#include "models/family.h"
#include "nn/attention.h"
#include "nn/mlp.h"
#include "nn/moe/moe.h"
#include "sharding/labels.h"

namespace moesh::models {
namespace {

// [B, S, M], one number a token.
Tensor share_of_token(Builder& builder, const Context& context, Tensor h_BSM) {
  const graph::Scope scope(builder, "shared_expert_gate");
  const Tensor weight_M =
      nn::parameter(builder, context, "kernel", {context.model.emb_dim},
                    {{labels::embed}, nn::moe_fan_in(context, context.model.emb_dim), nn::Role::shared_expert_kernel});
  return broadcast(unary(graph::Unary::sigmoid, einsum("", "bsm,m->bs", h_BSM, weight_M)), h_BSM.shape(), {0, 1});
}

LayerResult block(Builder& builder, const Context& context, Tensor h, const Tokens& tokens, bool has_experts) {
  if (!has_experts) return {nn::mlp(builder, context, "mlp", h, context.model.mlp_dim), {}, {}};
  const nn::MoeResult routed = nn::moe(builder, context, "moe_block", h, labels::embed, tokens);
  if (context.model.moe.shared_experts == 0) return {routed.out, routed.balance_loss, routed.load};
  const Tensor shared = nn::shared_experts(builder, context, h, context.model.moe.shared_dim);
  return {add(routed.out, multiply(shared, share_of_token(builder, context, h))), routed.balance_loss, routed.load};
}

LayerResult layer(Builder& builder, const Context& context, Tensor x, const Tokens& tokens, std::int64_t position) {
  const config::LayerShape& shape = context.model.layer(position);
  return residual_layer(
      builder, context, x,
      {[&](Tensor h) { return nn::attention(builder, context, "self_attention", h, tokens, shape.window); },
       [&](Tensor h) { return block(builder, context, h, tokens, shape.has_experts); }});
}

}  // namespace

std::vector<LayerGroup> qwen2_moe_layers(const Context& context) {
  return {{"layers", context.model.layers, context.model.unlike_layers(), true, layer}};
}

}  // namespace moesh::models
