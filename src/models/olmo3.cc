// OLMo 3: norms only after attention and MLP, one norm over all heads of the queries and one over those of the keys; sliding windows in
// most layers.
#include "models/family.h"
#include "nn/attention.h"
#include "nn/mlp.h"

namespace moesh::models {
namespace {

LayerResult olmo3_layer(Builder& builder, const Context& context, Tensor x, const Tokens& tokens, std::int64_t position) {
  return residual_layer(
      builder, context, x,
      {[&](Tensor h) { return nn::attention(builder, context, "attention", h, tokens, context.model.layer(position)); },
       [&](Tensor h) {
         return LayerResult{nn::mlp(builder, context, "mlp", h, context.model.mlp_dim), {}, {}};
       },
       {nullptr, "post_self_attention_layer_norm", nullptr, "post_mlp_layer_norm"}});
}

}  // namespace

std::vector<LayerGroup> olmo3_layers(const Context& context) { return one_group(context, olmo3_layer); }

}  // namespace moesh::models
