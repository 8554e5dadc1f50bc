// gpt-oss: attention with sinks and biases, a sliding window in every other layer, experts with biases.
#include "models/family.h"
#include "nn/attention.h"
#include "sharding/labels.h"

namespace moesh::models {
namespace {

LayerResult gpt_oss_layer(Builder& builder, const Context& context, Tensor x, const Tokens& tokens, std::int64_t position) {
  const config::LayerShape& shape = context.model.layer(position);
  return residual_layer(
      builder, context, x,
      {[&](Tensor h) { return nn::attention(builder, context, "GptOssAttention", h, tokens, shape); },
       [&](Tensor h) { return routed_experts(builder, context, "GptOssMlp", h, tokens, labels::embed); }});
}

}  // namespace

std::vector<LayerGroup> gpt_oss_layers(const Context& context) {
  return one_group(context, gpt_oss_layer);
}

}  // namespace moesh::models
