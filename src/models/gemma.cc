// Gemma 2 and 3: norms before and after attention and MLP, windows on some layers.
#include "models/family.h"
#include "nn/attention.h"
#include "nn/mlp.h"
#include "nn/norm.h"

namespace moesh::models {
namespace {

LayerResult layer(Builder& builder, const Context& context, Tensor x, const Tokens& tokens, std::int64_t position) {
  using nn::constrain_residual;
  const auto norm = [&](const char* name, Tensor h) { return nn::rms_norm(builder, context, name, h); };
  x = constrain_residual("inputs", x);
  const Tensor normed = constrain_residual("lnx", norm("pre_self_attention_norm", x));
  const Tensor attended =
      nn::attention(builder, context, "self_attention", normed, tokens, context.model.layer(position).window);
  x = add(x, norm("post_self_attention_norm", constrain_residual("attention_lnx", attended)));
  const Tensor renormed = constrain_residual("hidden_states", norm("pre_ffw_norm", x));
  const Tensor made = nn::mlp(builder, context, "mlp", renormed, context.model.mlp_dim);
  const Tensor out = add(x, norm("post_ffw_norm", constrain_residual("mlp_lnx", made)));
  return {constrain_residual("layer_output", out), {}, {}};
}

}  // namespace

std::vector<LayerGroup> gemma_layers(const Context& context) {
  return {{"layers", context.model.layers, context.model.unlike_layers(), true, layer}};
}

}  // namespace moesh::models
