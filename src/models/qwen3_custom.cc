// MaxText's custom Qwen3: the result of attention is narrower than the embedding and goes to the experts at that width; their result is
// widened again.
#include "models/family.h"
#include "nn/attention.h"
#include "nn/moe/moe.h"
#include "nn/norm.h"
#include "sharding/labels.h"

namespace moesh::models {
namespace {

Tensor widened(Builder& builder, const Context& context, Tensor x_BSN) {
  const std::int64_t narrow = x_BSN.size(2), emb = context.model.emb_dim;
  if (narrow == emb) return x_BSN;
  const graph::Scope scope(builder, "layer_up_projection");
  const Labels of = nn::unless_context_decodes(context, {labels::mlp, labels::embed});
  const Tensor kernel =
      nn::parameter(builder, context, "kernel", {narrow, emb}, {of, nn::moe_fan_in(context, narrow), nn::Role::mlp_kernel});
  return einsum("", "bsn,nm->bsm", x_BSN, kernel);
}

// As in MaxText, the layer has this scale although nothing reads it: only weight decay changes it.
void keep_idle_norm(Builder& builder, const Context& context) {
  const graph::Scope scope(builder, "post_self_attention_layer_norm");
  nn::parameter(builder, context, "scale", {context.model.emb_dim}, {{labels::norm}, nn::ones(), nn::Role::norm_scale});
}

LayerResult qwen3_custom_layer(Builder& builder, const Context& context, Tensor x, const Tokens& tokens, std::int64_t position) {
  using nn::constrain_residual;
  x = constrain_residual("inputs", x);
  const Tensor normed = constrain_residual("lnx", nn::rms_norm(builder, context, "pre_self_attention_layer_norm", x));
  keep_idle_norm(builder, context);
  const Tensor attended =
      nn::attention(builder, context, "self_attention", normed, tokens, context.model.layer(position));
  const Tensor latent = nn::rms_norm(builder, context, "latent_norm", constrain_residual("attention_lnx", attended));
  const LayerResult made = routed_experts(builder, context, "moe_block", latent, tokens, labels::embed);
  const Tensor wide =
      constrain_residual("layer_output", widened(builder, context, constrain_residual("mlp_lnx", made.x)));
  return {add(x, wide), made.balance_loss, made.load};
}

}  // namespace

std::vector<LayerGroup> qwen3_custom_layers(const Context& context) { return one_group(context, qwen3_custom_layer); }

}  // namespace moesh::models
