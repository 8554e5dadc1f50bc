// Shape suffixes: E experts, M embedding, F width.
#include "nn/moe/experts.h"

#include "nn/mlp.h"
#include "sharding/labels.h"

namespace moesh::nn {
namespace {

// The labels of the experts' kernels. Two flags lay the expert dim where the embedding lies otherwise.
// use_batch_split_schedule names the expert dim expert_only and leaves the width without a label.
struct KernelLabels {
  Labels in{labels::exp, labels::embed_moe, labels::mlp_moe}, out{labels::exp, labels::mlp_moe, labels::embed_moe};
};

KernelLabels kernel_labels(const config::Settings& settings) {
  if (settings.boolean("shard_exp_on_fsdp") || settings.boolean("fsdp_shard_on_exp"))
    return {{labels::embed_moe, labels::none, labels::mlp_moe}, {labels::embed_moe, labels::mlp_moe, labels::none}};
  if (settings.boolean("use_2d_fsdp_sharding"))
    return {{labels::embed_moe, labels::mlp_moe, labels::none}, {labels::embed_moe, labels::mlp_moe, labels::none}};
  if (settings.boolean("use_batch_split_schedule"))
    return {{labels::expert_only, labels::embed_moe, labels::none}, {labels::expert_only, labels::none, labels::embed_moe}};
  return {};
}

}  // namespace

const char* expert_label(const config::Settings& settings) {
  const std::vector<config::AxisRule>& rules = settings.rules("logical_axis_rules");
  if (!settings.boolean("use_batch_split_schedule") || has_rule(rules, labels::exp)) return labels::exp;
  return has_rule(rules, labels::expert_only) ? labels::expert_only : labels::exp;
}

Experts experts(Builder& builder, const Context& context) {
  const std::int64_t count = context.model.moe.experts;
  const std::int64_t width = context.model.moe.mlp_dim;
  const std::int64_t emb = context.model.moe.input_dim;
  const KernelLabels of = kernel_labels(context.settings);
  // The expert dim counts as an input dim at initialisation.
  const auto in_kernel = [&](const char* name) {
    return parameter(builder, context, name, {count, emb, width}, {of.in, moe_fan_in(context, count * width), Role::expert_kernel});
  };
  const auto bias = [&](const char* name, std::int64_t size, const char* label) {
    return parameter(builder, context, name, {count, size}, {{labels::exp, label}, zeros(), Role::expert_bias});
  };
  Experts e;
  e.wi_0 = in_kernel("wi_0");
  e.wi_1 = in_kernel("wi_1");
  e.wo = parameter(builder, context, "wo", {count, width, emb}, {of.out, moe_fan_in(context, count * emb), Role::expert_kernel});
  if (!context.model.moe.bias) return e;
  e.wi_0_bias = bias("wi_0_bias", width, labels::activation_mlp);
  e.wi_1_bias = bias("wi_1_bias", width, labels::activation_mlp);
  e.wo_bias = bias("wo_bias", emb, labels::activation_embed);
  return e;
}

Tensor expert_gate(const Context& context, Tensor a, Tensor b) {
  // The gate is clamped from above, the other half on both sides.
  const double limit = context.model.moe.limit;
  if (limit > 0) {
    a = unary(graph::Unary::clamp, a, -1e30, limit);
    b = unary(graph::Unary::clamp, b, -limit, limit);
  }
  // As in MaxText, only the first activation function counts: the other half stays linear.
  if (context.model.block != config::Block::gpt_oss) return multiply(first_activation(context, a), b);
  // gpt-oss: (b + 1) * a * f(1.702 a), with the sigmoid for f in its presets.
  const Tensor gated = multiply(a, first_activation(context, scale(a, 1.702)));
  return multiply(gated, unary(graph::Unary::offset, b, 1));
}

}  // namespace moesh::nn
