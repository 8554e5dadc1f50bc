// Shape suffixes: B rows, S length, M embedding, R latent rank, H heads, D head dim.
#include "nn/latent_attention.h"

#include <cmath>

#include "nn/attention.h"
#include "nn/cache.h"
#include "nn/norm.h"
#include "nn/rope.h"
#include "sharding/labels.h"

namespace moesh::nn {
namespace {

struct LatentLabels {
  Labels input, query, key, out;
};

// New tokens bear what trained ones do; keys and values of kept tokens are read whole.
LatentLabels labels_of(Context::Mode mode) {
  using namespace labels;  // NOLINT: the table reads as the rule files do
  const bool prefill = mode == Context::Mode::prefill;
  const char* batch = prefill ? activation_prefill_kv_batch : activation_batch_attn;
  const char* kv_batch = prefill ? activation_prefill_kv_batch : activation_kv_batch;
  const char* length = prefill ? prefill_activation_length : activation_length;
  const char* key_length = mode == Context::Mode::train ? length : activation_kv_length;
  return {{batch, length, activation_embed},
          {kv_batch, length, activation_kv_heads, activation_kv_head_dim},
          {kv_batch, key_length, activation_kv_heads, activation_kv_head_dim},
          {batch, length, activation_heads, activation_kv}};
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
  const Labels as = labels_of(context.mode()).query;
  const Tensor nope = constrain("q_nope", slice(query, 3, 0, shape.qk_nope_head_dim), as);
  Tensor turned = slice(query, 3, shape.qk_nope_head_dim, shape.qk_rope_head_dim);
  turned = constrain("q_pe", rope(builder, context, turned, tokens.positions), as);
  return constrain("query", graph::scale(graph::concat({nope, turned}, 3), score_scale(context)), as);
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
  Tensor latent = rms_norm(builder, context, "kv_norm", slice(low, 2, 0, shape.kv_lora_rank));
  Tensor one_head = slice(low, 2, shape.kv_lora_rank, turned);
  one_head = rope(builder, context, reshape(one_head, {context.rows, context.length, 1, turned}), tokens.positions);
  one_head = reshape(one_head, {context.rows, context.length, turned});
  if (!context.trains()) {
    const Labels kept{labels::cache_batch, labels::cache_sequence, labels::cache_kv};
    latent = remember(builder, context, "latent", latent, tokens.positions, kept);
    one_head = remember(builder, context, "key_rope", one_head, tokens.positions, kept);
  }
  const Tensor both = up(builder, context, latent,
                         {"wkv_b", labels::kv_lora, labels::kv_heads, labels::kv_head_dim, nope + shape.v_head_dim});
  const Labels as = labels_of(context.mode()).key;
  const Tensor key_nope = constrain("key_nope", slice(both, 3, 0, nope), as);
  const Tensor key_rope = constrain(
      "key_rope", broadcast(one_head, {context.rows, one_head.size(1), shape.query_heads, turned}, {0, 1, 3}), as);
  return {constrain("key", graph::concat({key_nope, key_rope}, 3), as),
          constrain("value", slice(both, 3, nope, shape.v_head_dim), as)};
}

}  // namespace

Tensor latent_attention(Builder& builder, const Context& context, const std::string& name, Tensor x_BSM,
                        const Tokens& tokens) {
  const graph::Scope scope(builder, name);
  const LatentLabels as = labels_of(context.mode());
  const Tensor query_in = constrain("inputs_q", x_BSM, as.input);
  const Tensor kv_in = constrain("inputs_kv", x_BSM, as.input);
  const Tensor query = build_query(builder, context, query_in, tokens);
  const KeyValue kv = build_key_value(builder, context, kv_in, tokens);
  Tensor out = attend(builder, context, query, kv.key, kv.value, tokens, attention_of(context, 0));
  out = constrain("out", out, as.out);
  return project_out(builder, context, out);
}

}  // namespace moesh::nn
