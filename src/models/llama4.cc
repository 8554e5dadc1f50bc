// Llama 4: layers with chunked attention, layers without positions that see the whole sequence, and in every n-th layer experts, whose
// inputs are weighted, beside a shared one.
#include "models/family.h"
#include "sharding/labels.h"

namespace moesh::models {
namespace {

LayerResult llama4_experts(Builder& builder, const Context& context, Tensor h, const Tokens& tokens) {
  const graph::Scope scope(builder, "Llama4MoEBlock_0");
  return all_experts(builder, context, "MoeBlock_0", h, tokens, labels::embed_moe);
}

LayerResult llama4_layer(Builder& builder, const Context& context, Tensor x, const Tokens& tokens, std::int64_t position) {
  return mixed_layer(builder, context, x, tokens, position,
                     [&](Tensor h) { return llama4_experts(builder, context, h, tokens); });
}

}  // namespace

std::vector<LayerGroup> llama4_layers(const Context& context) { return one_group(context, llama4_layer); }

}  // namespace moesh::models
