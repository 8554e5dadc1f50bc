// Gemma 1, 2 and 3: norms before attention and MLP, in 2 and 3 also after them; sliding windows in some layers.
#include "models/family.h"
#include "nn/attention.h"
#include "nn/mlp.h"

namespace moesh::models {
namespace {

struct PartNames {
  const char* attention = "self_attention";
  const char* mlp = "mlp";
  const char* suffix = "";
  NormNames norms{"pre_self_attention_norm", "post_self_attention_norm", "pre_ffw_norm", "post_ffw_norm"};
};

LayerResult named_layer(Builder& builder, const Context& context, Tensor x, const Tokens& tokens, std::int64_t position, PartNames names) {
  if (!context.model.norms_attention) names.norms.after_attention = nullptr;
  if (!context.model.norms_mlp) names.norms.after_mlp = nullptr;
  return residual_layer(
      builder, context, x,
      {[&](Tensor h) { return nn::attention(builder, context, names.attention, h, tokens, context.model.layer(position)); },
       [&](Tensor h) { return LayerResult{nn::mlp(builder, context, names.mlp, h, context.model.mlp_dim), {}, {}}; },
       names.norms, names.suffix});
}

LayerResult gemma_layer(Builder& builder, const Context& context, Tensor x, const Tokens& tokens, std::int64_t position) {
  return named_layer(builder, context, x, tokens, position, {});
}

// MaxText's Gemma 2: a layer with a sliding window and one without are built as one layer.
LayerResult pair(Builder& builder, const Context& context, Tensor x, const Tokens& tokens, std::int64_t) {
  const PartNames local{"self_attention_local",
                        "mlp_local",
                        "_local",
                        {"pre_self_attention_norm_local", "post_self_attention_norm_local", "pre_ffw_norm_local", "post_ffw_norm_local"}};
  const PartNames global{"self_attention_global",
                         "mlp_global",
                         "_global",
                         {"pre_self_attention_norm_global", "post_self_attention_norm_global", "pre_ffw_norm_global",
                          "post_ffw_norm_global"}};
  x = named_layer(builder, context, x, tokens, 0, local).x;
  return named_layer(builder, context, x, tokens, 1, global);
}

}  // namespace

std::vector<LayerGroup> gemma_layers(const Context& context) { return one_group(context, context.model.has_pairs ? pair : gemma_layer); }

}  // namespace moesh::models
