// GPT-3: layer norms with biases, biases on every product, learned position embeddings instead of rotary ones.
#include <cmath>

#include "models/family.h"
#include "nn/attention.h"
#include "nn/mlp.h"
#include "nn/norm.h"
#include "sharding/labels.h"

namespace moesh::models {
namespace {

using nn::Role;

Tensor constrain_heads(const char* name, Tensor x) {
  return constrain(
      name, x, {labels::activation_batch, labels::activation_length, labels::activation_heads, labels::activation_kv});
}

// Projects to heads, or with one kernel to the heads of queries, of keys and of values.
Tensor project(Builder& builder, const Context& context, const std::string& name, Tensor x_BSM, bool fuses) {
  const graph::Scope scope(builder, name);
  const config::AttentionShape& shape = context.model.attention;
  Shape sizes{shape.query_heads, shape.head_dim};
  Labels all{labels::heads, labels::kv};
  if (fuses) {
    sizes.insert(sizes.begin(), 3);
    all.insert(all.begin(), labels::qkv);
  }
  Shape whole = sizes;
  Labels of_kernel = all;
  whole.insert(whole.begin(), context.model.emb_dim);
  of_kernel.insert(of_kernel.begin(), labels::embed);
  const Role role = fuses ? Role::attention_fused_kernel : Role::attention_kernel;
  const Tensor kernel = nn::parameter(builder, context, "kernel", whole, {of_kernel, nn::normal_fan_in(context.model.emb_dim), role});
  const Tensor made = einsum("", fuses ? "bsm,mqhd->bsqhd" : "bsm,mhd->bshd", x_BSM, kernel);
  return add_bias(made, nn::parameter(builder, context, "bias", sizes, {all, nn::zeros(), Role::attention_bias}));
}

struct Heads {
  Tensor query, key, value;
};

Heads project_heads(Builder& builder, const Context& context, Tensor x_BSM) {
  if (!context.model.attention.fused) {
    const auto one = [&](const char* name) { return project(builder, context, name, x_BSM, false); };
    return {one("query"), one("key"), one("value")};
  }
  const Tensor all = tag(project(builder, context, "qkv_proj", x_BSM, true), "qkv_proj");
  const Shape shape = all.shape();
  const auto one = [&](std::int64_t which) {
    return reshape(slice(all, 2, which, 1), {shape[0], shape[1], shape[3], shape[4]});
  };
  return {one(0), one(1), one(2)};
}

Tensor attention(Builder& builder, const Context& context, Tensor x_BSM, const Tokens& tokens) {
  const graph::Scope scope(builder, "self_attention");
  const config::AttentionShape& shape = context.model.attention;
  const Tensor input =
      constrain("inputs_q", x_BSM, {labels::activation_batch, labels::activation_length, labels::activation_embed});
  auto [query, key, value] = project_heads(builder, context, input);
  const double own_scale = 1 / std::sqrt(static_cast<double>(shape.head_dim));
  query =
      tag(constrain_heads("query", scale(query, shape.score_scale >= 0 ? shape.score_scale : own_scale)), "query_proj");
  key = tag(constrain_heads("key", key), "key_proj");
  value = tag(constrain_heads("value", value), "value_proj");
  nn::update_kv_cache(builder, context, key, value, tokens, context.cache_slots);
  const Tensor out = nn::attend(builder, context, query, key, value, tokens, nn::attention_of(context, {})).out;
  return nn::project_out(builder, context, constrain_heads("out", out), {labels::heads, labels::kv, labels::embed});
}

LayerResult gpt3_layer(Builder& builder, const Context& context, Tensor x, const Tokens& tokens, std::int64_t) {
  using nn::constrain_residual;
  x = constrain_residual("inputs", x);
  const Tensor normed = constrain_residual("lnx", nn::layer_norm(builder, context, "pre_self_attention_norm", x));
  x = add(constrain_residual("attention_lnx", attention(builder, context, normed, tokens)), x);
  const Tensor made = nn::mlp(builder, context, "mlp", x, context.model.mlp_dim, {.bias = true, .norms = true});
  return {constrain_residual("layer_output", add(x, constrain_residual("mlp_lnx", made))), {}, {}};
}

}  // namespace

std::vector<LayerGroup> gpt3_layers(const Context& context) { return one_group(context, gpt3_layer); }

}  // namespace moesh::models
