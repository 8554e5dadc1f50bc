// Llama 4: layers that see their chunk of the sequence, layers without positions that see all of it, and in every so
// many layers experts, whose inputs are weighted, beside a shared one.
#include "models/family.h"
#include "nn/mlp.h"
#include "nn/moe/moe.h"
#include "sharding/labels.h"

namespace moesh::models {
namespace {

LayerResult experts(Builder& builder, const Context& context, Tensor h, const Tokens& tokens) {
  const graph::Scope scope(builder, "Llama4MoEBlock_0");
  const nn::MoeResult routed = nn::moe(builder, context, "MoeBlock_0", h, labels::embed_moe, tokens);
  const config::MoeShape& moe = context.model.moe;
  if (moe.shared_experts == 0) return {routed.out, routed.balance_loss, routed.load};
  return {add(routed.out, nn::shared_experts(builder, context, h, moe.shared_dim)), routed.balance_loss, routed.load};
}

LayerResult layer(Builder& builder, const Context& context, Tensor x, const Tokens& tokens, std::int64_t position) {
  return mixed_layer(builder, context, x, tokens, position,
                     [&](Tensor h) { return experts(builder, context, h, tokens); });
}

}  // namespace

std::vector<LayerGroup> llama4_layers(const Context& context) { return one_group(context, layer); }

}  // namespace moesh::models
