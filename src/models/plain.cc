// MaxText's own layer, `default`: attention and MLP in parallel after one norm.
#include "models/family.h"
#include "nn/attention.h"
#include "nn/mlp.h"
#include "nn/norm.h"
#include "sharding/labels.h"

namespace moesh::models {
namespace {

Tensor constrained(const char* name, Tensor x) {
  return constrain(name, x, {labels::activation_batch, labels::activation_length, labels::activation_embed});
}

LayerResult plain_layer(Builder& builder, const Context& context, Tensor x, const Tokens& tokens, std::int64_t position) {
  x = constrained("inputs", x);
  const Tensor normed = constrained("lnx", nn::rms_norm(builder, context, "pre_self_attention_norm", x));
  const Tensor attended =
      nn::attention(builder, context, "self_attention", normed, tokens, context.model.layer(position));
  const Tensor made = nn::mlp(builder, context, "mlp", normed, context.model.mlp_dim);
  const Tensor both = add(constrained("mlp_lnx", made), constrained("attention_lnx", attended));
  return {constrained("layer_output", add(both, x)), {}, {}};
}

}  // namespace

std::vector<LayerGroup> plain_layers(const Context& context) { return one_group(context, plain_layer); }

}  // namespace moesh::models
