#include <cassert>

#include "models/family.h"
#include "nn/attention.h"
#include "nn/mlp.h"
#include "nn/moe/moe.h"
#include "nn/norm.h"
#include "nn/streams.h"
#include "sharding/labels.h"

namespace moesh::models {
namespace {

using config::Block;

struct Family {
  Block block;
  std::vector<LayerGroup> (*layers)(const Context&);
};

constexpr Family kFamilies[] = {{Block::plain, plain_layers},
                                {Block::llama2, llama_layers},
                                {Block::llama4, llama4_layers},
                                {Block::mistral, llama_layers},
                                {Block::mixtral, mixtral_layers},
                                {Block::deepseek, deepseek_layers},
                                {Block::deepseek4, deepseek4_layers},
                                {Block::qwen2, llama_layers},
                                {Block::qwen2_moe, qwen2_moe_layers},
                                {Block::qwen3, qwen3_layers},
                                {Block::qwen3_moe, qwen3_layers},
                                {Block::qwen3_custom_moe, qwen3_custom_layers},
                                {Block::qwen3_next, qwen3_next_layers},
                                {Block::gpt3, gpt3_layers},
                                {Block::gpt_oss, gpt_oss_layers},
                                {Block::gemma, gemma_layers},
                                {Block::gemma2, gemma_layers},
                                {Block::gemma3, gemma_layers},
                                {Block::gemma4, gemma4_layers},
                                {Block::olmo3, olmo3_layers},
                                {Block::envy, envy_layers}};

}  // namespace

std::vector<LayerGroup> layers_of(const Context& context) {
  for (const Family& family : kFamilies) {
    if (family.block == context.model.block) return family.layers(context);
  }
  assert(false && "a decoder block without a family");
  return {};
}

std::vector<LayerGroup> one_group(const Context& context, Layer layer) {
  return {{"layers", context.model.layers, context.model.has_pairs ? 1 : context.model.layers_per_cycle(), true, std::move(layer), {}}};
}

LayerResult residual_layer(Builder& builder, const Context& context, Tensor x, const Residual& parts) {
  using nn::constrain_residual;
  const auto laid = [&](const char* as, Tensor h) { return constrain_residual(as + parts.suffix, h); };
  const auto normed = [&](const char* name, const char* as, Tensor h) {
    return name == nullptr ? h : laid(as, nn::rms_norm(builder, context, name, h, {.epsilon = context.model.layer_norm_epsilon}));
  };
  const NormNames& norms = parts.norms;
  x = nn::connect(builder, context, "mhc_attention", laid("inputs", x), [&](Tensor h) {
    const Tensor attended = laid("attention_lnx", parts.attention(normed(norms.before_attention, "lnx", h)));
    return normed(norms.after_attention, "attention_normed", attended);
  });
  LayerResult made;
  Tensor out = nn::connect(builder, context, "mhc_mlp", x, [&](Tensor h) {
    made = parts.block(normed(norms.before_mlp, "hidden_states", h));
    return normed(norms.after_mlp, "mlp_normed", laid("mlp_lnx", made.x));
  });
  if (parts.has_scalar) {
    const Tensor scalar = nn::parameter(builder, context, "layer_scalar", {1}, {{labels::none}, nn::ones(), graph::Role::norm_scale});
    out = multiply_all(out, scalar);
  }
  return {laid("layer_output", out), made.balance_loss, made.load};
}

LayerResult mixed_layer(Builder& builder, const Context& context, Tensor x, const Tokens& tokens, std::int64_t position,
                        const std::function<LayerResult(Tensor)>& experts) {
  const config::LayerShape& shape = context.model.layer(position);
  return residual_layer(
      builder, context, x,
      {[&](Tensor h) { return nn::attention(builder, context, "self_attention", h, tokens, shape); },
       [&](Tensor h) {
         return shape.has_experts ? experts(h) : LayerResult{nn::mlp(builder, context, "mlp", h, context.model.mlp_dim), {}, {}};
       },
       {.after_mlp = context.model.norms_mlp ? "post_ffw_norm" : nullptr}});
}

LayerResult routed_experts(Builder& builder, const Context& context, const std::string& name, Tensor x, const Tokens& tokens,
                           const char* label, bool is_given) {
  const nn::MoeResult made = nn::moe(builder, context, name, x, {label, {}, is_given}, tokens);
  return {made.out, made.balance_loss, made.load};
}

Tensor share_of_token(Tensor h_BSM, Tensor weight_M) {
  return broadcast(unary(graph::Unary::sigmoid, einsum("", "bsm,m->bs", h_BSM, weight_M)), h_BSM.shape(), {0, 1});
}

LayerResult all_experts(Builder& builder, const Context& context, const std::string& name, Tensor x, const Tokens& tokens,
                        const char* label, bool is_given) {
  LayerResult made = routed_experts(builder, context, name, x, tokens, label, is_given);
  const config::MoeShape& moe = context.model.moe;
  if (moe.shared_experts > 0) made.x = add(made.x, nn::shared_experts(builder, context, x, moe.shared_dim));
  return made;
}

}  // namespace moesh::models
