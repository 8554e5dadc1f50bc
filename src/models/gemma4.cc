// Gemma 4: layers with sliding windows, and global layers whose heads have another width; norms before and after attention and MLP; if
// there are experts, their router reads the input of the MLP beside them before its norm.
#include <cmath>

#include "models/family.h"
#include "nn/attention.h"
#include "nn/mlp.h"
#include "nn/moe/moe.h"
#include "nn/norm.h"
#include "sharding/labels.h"

namespace moesh::models {
namespace {

// The router's input: x divided by its root mean square and by the root of the width, times a learned scale, in the type that the router
// works in.
Tensor router_input(Builder& builder, const Context& context, Tensor x) {
  const config::ModelShape& model = context.model;
  const DType dtype = model.float32_gate_logits ? DType::float32 : model.compute_dtype;
  const graph::ParameterOf of{{labels::embed}, nn::ones(), graph::Role::norm_scale};
  const Tensor scale_M = nn::parameter(builder, context, "pre_forward_scale_2", {model.emb_dim}, of, dtype);
  const Tensor normed = graph::scale(nn::rms_norm_without_scale(builder, context, cast(x, dtype)),
                                     1 / std::sqrt(static_cast<double>(model.emb_dim)));
  return multiply(normed, broadcast(scale_M, normed.shape(), {normed.rank() - 1}));
}

// `x`: the input before the MLP's norm.
LayerResult experts_beside_mlp(Builder& builder, const Context& context, Tensor x, const Tokens& tokens) {
  const nn::NormOptions options{.epsilon = context.model.layer_norm_epsilon};
  const auto normed = [&](const char* name, Tensor of) { return nn::rms_norm(builder, context, name, of, options); };
  const Tensor h = nn::constrain_residual("hidden_states", normed("pre_ffw_norm", x));
  const graph::Scope scope(builder, "mlp");
  const auto in_block = [&](const auto& make) {
    const graph::Scope block(builder, "moe_block");
    return make();
  };
  const Tensor shared = in_block([&] { return nn::shared_experts(builder, context, h, context.model.moe.shared_dim); });
  const Tensor beside = normed("post_feedforward_layernorm_1", shared);
  const Tensor routed_in = normed("pre_feedforward_layernorm_2", x);
  const nn::RouterInput router{labels::embed_moe, router_input(builder, context, x)};
  const nn::MoeResult made = in_block([&] { return nn::moe(builder, context, "MoeBlock_0", routed_in, router, tokens); });
  return {add(normed("post_feedforward_layernorm_2", made.out), beside), made.balance_loss, made.load};
}

LayerResult gemma4_layer(Builder& builder, const Context& context, Tensor x, const Tokens& tokens, std::int64_t position) {
  const config::ModelShape& model = context.model;
  const bool has_experts = model.is_moe();
  const auto attend = [&](Tensor h) { return nn::attention(builder, context, "self_attention", h, tokens, model.layer(position)); };
  const auto block = [&](Tensor h) {
    if (has_experts) return experts_beside_mlp(builder, context, h, tokens);
    return LayerResult{nn::mlp(builder, context, "mlp", h, model.mlp_dim), {}, {}};
  };
  return residual_layer(builder, context, x,
                        {.attention = attend,
                         .block = block,
                         .norms = {"pre_self_attention_norm", model.norms_attention ? "post_self_attention_norm" : nullptr,
                                   has_experts ? nullptr : "pre_ffw_norm", model.norms_mlp ? "post_ffw_norm" : nullptr},
                         .has_scalar = true});
}

}  // namespace

std::vector<LayerGroup> gemma4_layers(const Context& context) {
  std::vector<LayerGroup> groups = one_group(context, gemma4_layer);
  if (context.model.nests_layers) groups.front().nested = NestedNames{"scanned_blocks", "local_layers", "global_layer"};
  return groups;
}

}  // namespace moesh::models
