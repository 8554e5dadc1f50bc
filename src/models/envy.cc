// MaxText's Envy: Llama's attention, experts in every n-th layer, and norms after MLPs and experts if the settings ask for them.
#include "models/family.h"
#include "sharding/labels.h"

namespace moesh::models {
namespace {

LayerResult envy_layer(Builder& builder, const Context& context, Tensor x, const Tokens& tokens, std::int64_t position) {
  return mixed_layer(builder, context, x, tokens, position,
                     [&](Tensor h) { return routed_experts(builder, context, "MoeBlock_0", h, tokens, labels::embed); });
}

}  // namespace

std::vector<LayerGroup> envy_layers(const Context& context) { return one_group(context, envy_layer); }

}  // namespace moesh::models
