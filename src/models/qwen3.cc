// Qwen3: queries and keys are normalised per head; an MLP, or experts.
#include "models/family.h"
#include "nn/attention.h"
#include "nn/mlp.h"
#include "nn/moe/moe.h"
#include "sharding/labels.h"

namespace moesh::models {
namespace {

LayerResult block(Builder& builder, const Context& context, Tensor h, const Tokens& tokens, bool has_experts) {
  if (!has_experts) return {nn::mlp(builder, context, "mlp", h, context.model.mlp_dim), {}, {}};
  const nn::MoeResult made = nn::moe(builder, context, "moe_block", h, labels::embed, tokens);
  return {made.out, made.balance_loss, made.load};
}

LayerResult layer(Builder& builder, const Context& context, Tensor x, const Tokens& tokens, std::int64_t position) {
  const config::LayerShape& shape = context.model.layer(position);
  return residual_layer(
      builder, context, x,
      {[&](Tensor h) { return nn::attention(builder, context, "self_attention", h, tokens, shape.window); },
       [&](Tensor h) { return block(builder, context, h, tokens, shape.has_experts); }});
}

}  // namespace

std::vector<LayerGroup> qwen3_layers(const Context& context) {
  return {{"layers", context.model.layers, context.model.unlike_layers(), true, layer}};
}

}  // namespace moesh::models
