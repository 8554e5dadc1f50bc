// DeepSeek 4: compressed attention and experts in all layers, between several streams of the residual. A table gives the experts of each
// token in the first layers, which are not stacked.
#include "models/family.h"
#include "nn/compressed_attention.h"
#include "sharding/labels.h"

namespace moesh::models {
namespace {

LayerResult compressed_layer(Builder& builder, const Context& context, Tensor x, const Tokens& tokens, std::int64_t layer) {
  const config::LayerShape& shape = context.model.layer(layer);
  return residual_layer(builder, context, x,
                        {[&](Tensor h) { return nn::compressed_attention(builder, context, "self_attention", h, tokens, shape); },
                         [&](Tensor h) {
                           const graph::Scope scope(builder, "mlp");
                           return all_experts(builder, context, "MoeBlock_0", h, tokens, labels::embed_moe, shape.has_given_experts);
                         }});
}

// Layers from `first` on, in cycles of so many.
LayerGroup group_of(const char* name, std::int64_t first, std::int64_t count, std::int64_t cycle) {
  const auto layer = [first](Builder& builder, const Context& context, Tensor x, const Tokens& tokens, std::int64_t position) {
    return compressed_layer(builder, context, x, tokens, first + position);
  };
  return {name, count, cycle, false, layer};
}

}  // namespace

std::vector<LayerGroup> deepseek4_layers(const Context& context) {
  const config::ModelShape& model = context.model;
  if (!model.scan) return {group_of("layers", 0, model.layers, model.layers)};
  std::vector<LayerGroup> groups;
  if (model.given_layers > 0) {
    groups.push_back(group_of("layers", 0, model.given_layers, model.given_layers));
    groups.back().is_written_out = true;
  }
  const std::int64_t stacked = model.layers - model.given_layers;
  if (stacked > 0) groups.push_back(group_of(labels::scanned_blocks, model.given_layers, stacked, 2));
  return groups;
}

}  // namespace moesh::models
