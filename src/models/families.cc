#include <array>
#include <cassert>

#include "models/family.h"
#include "nn/attention.h"
#include "nn/mlp.h"
#include "nn/norm.h"

namespace moesh::models {
namespace {

using config::Block;

struct Family {
  Block block;
  std::vector<LayerGroup> (*layers)(const Context&);
};

constexpr std::array<Family, 11> kFamilies{{{Block::llama2, llama_layers},
                                           {Block::mistral, llama_layers},
                                           {Block::mixtral, mixtral_layers},
                                           {Block::deepseek, deepseek_layers},
                                           {Block::qwen2, llama_layers},
                                           {Block::qwen2_moe, qwen2_moe_layers},
                                           {Block::qwen3, qwen3_layers},
                                           {Block::qwen3_moe, qwen3_layers},
                                           {Block::gpt_oss, gpt_oss_layers},
                                           {Block::gemma2, gemma_layers},
                                           {Block::gemma3, gemma_layers}}};

}  // namespace

std::vector<LayerGroup> layers_of(const Context& context) {
  for (const Family& family : kFamilies) {
    if (family.block == context.model.block) return family.layers(context);
  }
  assert(false && "a decoder block without a family");
  return {};
}

LayerResult residual_layer(Builder& builder, const Context& context, Tensor x, const Residual& parts) {
  using nn::constrain_residual;
  x = constrain_residual("inputs", x);
  const Tensor normed = nn::rms_norm(builder, context, "pre_self_attention_layer_norm", x);
  const Tensor attended = parts.attention(constrain_residual("lnx", normed));
  x = add(x, constrain_residual("attention_lnx", attended));
  const Tensor renormed = nn::rms_norm(builder, context, "post_self_attention_layer_norm", x);
  const LayerResult made = parts.block(constrain_residual("hidden_states", renormed));
  const Tensor out = add(constrain_residual("mlp_lnx", made.x), x);
  return {constrain_residual("layer_output", out), made.balance_loss, made.load};
}

LayerResult mixed_layer(Builder& builder, const Context& context, Tensor x, const Tokens& tokens, std::int64_t position,
                        const std::function<LayerResult(Tensor)>& experts) {
  const config::LayerShape& shape = context.model.layer(position);
  return residual_layer(
      builder, context, x,
      {[&](Tensor h) { return nn::attention(builder, context, "self_attention", h, tokens, shape.window); },
       [&](Tensor h) {
         return shape.has_experts ? experts(h) : LayerResult{nn::mlp(builder, context, "mlp", h, context.model.mlp_dim), {}, {}};
       }});
}

}  // namespace moesh::models
