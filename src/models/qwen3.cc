// Qwen3: queries and keys are normalised per head; an MLP, or experts.
#include "models/family.h"
#include "sharding/labels.h"

namespace moesh::models {
namespace {

LayerResult qwen3_layer(Builder& builder, const Context& context, Tensor x, const Tokens& tokens, std::int64_t position) {
  return mixed_layer(builder, context, x, tokens, position,
                     [&](Tensor h) { return routed_experts(builder, context, "moe_block", h, tokens, labels::embed); });
}

}  // namespace

std::vector<LayerGroup> qwen3_layers(const Context& context) {
  return one_group(context, qwen3_layer);
}

}  // namespace moesh::models
