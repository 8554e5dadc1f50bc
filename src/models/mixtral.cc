// Mixtral: Llama's attention, and experts instead of the MLP.
#include "models/family.h"
#include "nn/attention.h"
#include "sharding/labels.h"

namespace moesh::models {
namespace {

LayerResult mixtral_layer(Builder& builder, const Context& context, Tensor x, const Tokens& tokens, std::int64_t position) {
  const config::LayerShape& shape = context.model.layer(position);
  return residual_layer(builder, context, x,
                        {[&](Tensor h) { return nn::attention(builder, context, "self_attention", h, tokens, shape); },
                         [&](Tensor h) { return routed_experts(builder, context, "MoeBlock_0", h, tokens, labels::embed); }});
}

}  // namespace

std::vector<LayerGroup> mixtral_layers(const Context& context) {
  return one_group(context, mixtral_layer);
}

}  // namespace moesh::models
