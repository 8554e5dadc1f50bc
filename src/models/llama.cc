// Llama 2 and 3, Mistral and Qwen2: grouped-query attention and a gated MLP.
#include "models/family.h"

namespace moesh::models {
namespace {

LayerResult llama_layer(Builder& builder, const Context& context, Tensor x, const Tokens& tokens, std::int64_t position) {
  return mixed_layer(builder, context, x, tokens, position, {});
}

}  // namespace

std::vector<LayerGroup> llama_layers(const Context& context) {
  return one_group(context, llama_layer);
}

}  // namespace moesh::models
