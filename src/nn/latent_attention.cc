// Shape suffixes: B rows, S length, M embedding, R latent rank, H heads, D head dim.
#include "nn/latent_attention.h"

#include <cmath>

#include "nn/attention.h"
#include "nn/norm.h"
#include "nn/rope.h"
#include "sharding/labels.h"

namespace moesh::nn {
namespace {

Tensor constrain_input(const std::string& name, Tensor x_BSM) {
  return constrain(name, x_BSM, {labels::activation_batch_attn, labels::activation_length, labels::activation_embed});
}

Tensor constrain_heads(const std::string& name, Tensor x_BSHD) {
  return constrain(name, x_BSHD,
                   {labels::activation_kv_batch, labels::activation_length, labels::activation_kv_heads,
                    labels::activation_kv_head_dim});
}

Tensor down(Builder& builder, const Context& context, const std::string& name, Tensor x_BSM, std::int64_t rank,
            const char* label) {
  const graph::Scope scope(builder, name);
  const Tensor weight_MR = kernel(builder, context, "kernel", {context.model.emb_dim, rank}, {labels::embed, label},
                                  fan_in(context.model.emb_dim));
  return tag(einsum("", "bsm,mr->bsr", x_BSM, weight_MR), name == "wq_a" ? "query_wa_proj" : "kv_wa_proj");
}

struct Up {
  std::string name;
  const char* in_label;
  const char* heads_label;
  const char* dim_label;
  std::int64_t dim;
};

Tensor up(Builder& builder, const Context& context, Tensor x_BSR, const Up& u) {
  const graph::Scope scope(builder, u.name);
  const std::int64_t rank = x_BSR.shape().back();
  const Tensor weight_RHD = kernel(builder, context, "kernel", {rank, context.model.attention.query_heads, u.dim},
                                   {u.in_label, u.heads_label, u.dim_label}, fan_in(rank));
  return tag(einsum("", "bsr,rhd->bshd", x_BSR, weight_RHD), u.name == "wkv_b" ? "mla_kv" : "mla_q");
}

// (nope + rope)^-1/2, with YaRN's correction for long contexts.
double score_scale(const Context& context) {
  const config::AttentionShape& shape = context.model.attention;
  const config::Settings& settings = context.settings;
  const double plain = 1 / std::sqrt(static_cast<double>(shape.qk_head_dim()));
  const bool stretched = settings.integer("max_position_embeddings") > settings.integer("original_max_position_embeddings");
  if (settings.text("rope_type") != "yarn" || !stretched) return plain;
  const double correction = 0.1 * settings.real("mscale") * std::log(settings.real("rope_factor")) + 1;
  return plain * correction * correction;
}

Tensor build_query(Builder& builder, const Context& context, Tensor x_BSM, const Tokens& tokens) {
  const config::AttentionShape& shape = context.model.attention;
  Tensor query;
  if (shape.q_lora_rank > 0) {
    Tensor latent = down(builder, context, "wq_a", x_BSM, shape.q_lora_rank, labels::q_lora_up_proj);
    latent = rms_norm(builder, context, "q_norm", latent);
    query = up(builder, context, latent, {"wq_b", labels::q_lora, labels::q_heads, labels::kv, shape.qk_head_dim()});
  } else {
    query = up(builder, context, x_BSM, {"query", labels::embed, labels::q_heads, labels::kv, shape.qk_head_dim()});
  }
  const Tensor nope = constrain_heads("q_nope", slice(query, 3, 0, shape.qk_nope_head_dim));
  Tensor turned = slice(query, 3, shape.qk_nope_head_dim, shape.qk_rope_head_dim);
  turned = constrain_heads("q_pe", rope(builder, context, turned, tokens.positions));
  return constrain_heads("query", graph::scale(graph::concat({nope, turned}, 3), score_scale(context)));
}

struct KeyValue {
  Tensor key;
  Tensor value;
};

KeyValue build_key_value(Builder& builder, const Context& context, Tensor x_BSM, const Tokens& tokens) {
  const config::AttentionShape& shape = context.model.attention;
  const std::int64_t nope = shape.qk_nope_head_dim;
  const std::int64_t turned = shape.qk_rope_head_dim;
  const Tensor low = down(builder, context, "wkv_a", x_BSM, shape.kv_lora_rank + turned, labels::kv_lora_up_proj);
  const Tensor latent = rms_norm(builder, context, "kv_norm", slice(low, 2, 0, shape.kv_lora_rank));
  const Tensor both = up(builder, context, latent,
                         {"wkv_b", labels::kv_lora, labels::kv_heads, labels::kv_head_dim, nope + shape.v_head_dim});
  Tensor one_head = slice(low, 2, shape.kv_lora_rank, turned);
  one_head = rope(builder, context, reshape(one_head, {context.rows, context.length, 1, turned}), tokens.positions);
  one_head = reshape(one_head, {context.rows, context.length, turned});
  const Tensor key_nope = constrain_heads("key_nope", slice(both, 3, 0, nope));
  const Tensor key_rope = constrain_heads(
      "key_rope", broadcast(one_head, {context.rows, context.length, shape.query_heads, turned}, {0, 1, 3}));
  return {constrain_heads("key", graph::concat({key_nope, key_rope}, 3)),
          constrain_heads("value", slice(both, 3, nope, shape.v_head_dim))};
}

}  // namespace

Tensor latent_attention(Builder& builder, const Context& context, const std::string& name, Tensor x_BSM,
                        const Tokens& tokens) {
  const graph::Scope scope(builder, name);
  const Tensor query_in = constrain_input("inputs_q", x_BSM);
  const Tensor kv_in = constrain_input("inputs_kv", x_BSM);
  const Tensor query = build_query(builder, context, query_in, tokens);
  const KeyValue kv = build_key_value(builder, context, kv_in, tokens);
  Tensor out = attend(builder, context, query, kv.key, kv.value, tokens, attention_of(context, 0));
  out = constrain("out", out,
                  {labels::activation_batch_attn, labels::activation_length, labels::activation_heads,
                   labels::activation_kv});
  return project_out(builder, context, out);
}

}  // namespace moesh::nn
