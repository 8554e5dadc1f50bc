// Llama 2 and 3, Mistral and Qwen2: grouped-query attention and a gated MLP.
#include "models/family.h"
#include "nn/attention.h"
#include "nn/mlp.h"

namespace moesh::models {
namespace {

LayerResult layer(Builder& builder, const Context& context, Tensor x, const Tokens& tokens, std::int64_t position) {
  const std::int64_t window = context.model.layer(position).window;
  return residual_layer(
      builder, context, x,
      {[&](Tensor h) { return nn::attention(builder, context, "self_attention", h, tokens, window); },
       [&](Tensor h) { return LayerResult{nn::mlp(builder, context, "mlp", h, context.model.mlp_dim), {}, {}}; }});
}

}  // namespace

std::vector<LayerGroup> llama_layers(const Context& context) {
  return {{"layers", context.model.layers, context.model.unlike_layers(), true, layer}};
}

}  // namespace moesh::models
