// DeepSeek 2, 3 and 3.2 and Kimi K2, with latent attention, and GLM 4.5, with multi-head attention: the first layers are dense, the
// others have routed experts beside shared ones.
#include "models/family.h"
#include "nn/latent_attention.h"
#include "nn/mlp.h"
#include "sharding/labels.h"

namespace moesh::models {
namespace {

// A layer of attention and what `block` makes.
LayerResult attention_layer(Builder& builder, const Context& context, Tensor x, const Tokens& tokens,
                            const std::function<LayerResult(Tensor)>& block) {
  nn::Attended attended;
  const auto attend = [&](Tensor h) {
    if (!context.model.attention.latent) return nn::attention(builder, context, "self_attention", h, tokens, {});
    attended = nn::latent_attention(builder, context, "self_attention", h, tokens);
    return attended.out;
  };
  LayerResult made = residual_layer(builder, context, x, {attend, block});
  made.highest = attended.highest;
  made.index_loss = attended.index_loss;
  return made;
}

LayerResult deepseek_experts(Builder& builder, const Context& context, Tensor h, const Tokens& tokens) {
  const graph::Scope scope(builder, "DeepSeekMoeBlock_0");
  return all_experts(builder, context, "MoeBlock_0", h, tokens, labels::embed_moe);
}

LayerResult dense_layer(Builder& builder, const Context& context, Tensor x, const Tokens& tokens, std::int64_t) {
  return attention_layer(builder, context, x, tokens, [&](Tensor h) {
    return LayerResult{nn::mlp(builder, context, "mlp", h, context.model.mlp_dim), {}, {}};
  });
}

LayerResult moe_layer(Builder& builder, const Context& context, Tensor x, const Tokens& tokens, std::int64_t) {
  return attention_layer(builder, context, x, tokens, [&](Tensor h) { return deepseek_experts(builder, context, h, tokens); });
}

}  // namespace

std::vector<LayerGroup> deepseek_layers(const Context& context) {
  const std::int64_t dense = context.model.dense_layers;
  std::vector<LayerGroup> groups;
  if (dense > 0) {
    groups.push_back({"dense_layers", dense, 1, false, dense_layer});
    groups.back().has_experts = false;
  }
  if (context.model.layers > dense) groups.push_back({"moe_layers", context.model.layers - dense, 1, true, moe_layer});
  return groups;
}

}  // namespace moesh::models
