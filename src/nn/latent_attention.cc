// Shape suffixes: B rows, S length, M embedding, R latent rank, H heads, D head dim.
#include "nn/latent_attention.h"

#include "config/model_facts.h"
#include "nn/cache.h"
#include "nn/indexer.h"
#include "nn/norm.h"
#include "nn/rope.h"
#include "sharding/labels.h"

namespace moesh::nn {
namespace {

// Labels of the values around attention. Decode labels new tokens as training does; outside training, keys and values are those of all
// cached tokens and are labelled as such.
AttentionLabels latent_labels_of(Context::Mode mode) {
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

// `tag`: the result's, for remat policies.
Tensor down(Builder& builder, const Context& context, const std::string& name, const char* tag, Tensor x_BSM, std::int64_t rank,
            const char* label) {
  const graph::Scope scope(builder, name);
  const Tensor weight_MR = parameter(builder, context, "kernel", {context.model.emb_dim, rank},
                                     {{labels::embed, label}, normal_fan_in(context.model.emb_dim), Role::attention_down_kernel});
  return graph::tag(einsum("", "bsm,mr->bsr", x_BSM, weight_MR), tag);
}

Tensor latent_norm(Builder& builder, const Context& context, const std::string& name, Tensor x) {
  return rms_norm(builder, context, name, x, {Role::attention_norm_scale, context.model.attention.latent_norm_epsilon});
}

struct Up {
  std::string name;
  const char* in_label;
  const char* heads_label;
  const char* dim_label;
  std::int64_t dim;
};

Tensor up_weight(Builder& builder, const Context& context, std::int64_t rank, const Up& u) {
  return parameter(builder, context, "kernel", {rank, context.model.attention.query_heads, u.dim},
                   {{u.in_label, u.heads_label, u.dim_label}, normal_fan_in(rank), Role::attention_kernel});
}

Tensor up(Builder& builder, const Context& context, Tensor x_BSR, const Up& u) {
  const graph::Scope scope(builder, u.name);
  const Tensor weight_RHD = up_weight(builder, context, x_BSR.shape().back(), u);
  return einsum("", "bsr,rhd->bshd", x_BSR, weight_RHD);
}

struct Query {
  Tensor nope;
  Tensor rope;
  Tensor latent = {};  // what both come from; absent if they come from the input
};

Query build_query(Builder& builder, const Context& context, Tensor x_BSM, const Tokens& tokens) {
  const config::AttentionShape& shape = context.model.attention;
  Tensor query, latent;
  if (shape.q_lora_rank > 0) {
    latent = down(builder, context, "wq_a", "query_wa_proj", x_BSM, shape.q_lora_rank, labels::q_lora_up_proj);
    latent = tag(latent_norm(builder, context, "q_norm", latent), "mla_q");
    query = up(builder, context, latent, {"wq_b", labels::q_lora, labels::q_heads, labels::kv, shape.qk_head_dim()});
  } else {
    query = up(builder, context, x_BSM, {"query", labels::embed, labels::q_heads, labels::kv, shape.qk_head_dim()});
  }
  const Labels as = latent_labels_of(context.mode()).query;
  const Tensor nope = constrain("q_nope", slice(query, 3, 0, shape.qk_nope_head_dim), as);
  const Tensor unrotated = slice(query, 3, shape.qk_nope_head_dim, shape.qk_rope_head_dim);
  return {nope, constrain("q_pe", rope(builder, context, unrotated, tokens.positions), as), latent};
}

Tensor join_query(const Context& context, const Query& query) {
  const Tensor joined = graph::scale(graph::concat({query.nope, query.rope}, 3), config::score_scale(context.settings));
  return tag(constrain("query", joined, latent_labels_of(context.mode()).query), "query_proj");
}

// What attention reads of each token, [B, T, R] and [B, T, D]: the latent that its keys and values come from, and the rotated part of its
// key, which all heads share.
struct Latent {
  Tensor latent;
  Tensor key_rope_shared;
};

// Both as one vector for each token, [B, T, R + D], of the tokens so far. The cache keeps them so, because a new token reads this vector as
// its key: joining the parts for each new token would copy the whole cache.
Tensor cached(Builder& builder, const Context& context, const Latent& of, const Tokens& tokens) {
  return update_cache(builder, context, "latent", graph::concat({of.latent, of.key_rope_shared}, 2), tokens.positions, context.cache_slots,
                      {labels::cache_batch, labels::cache_sequence, labels::cache_kv});
}

Latent build_latent(Builder& builder, const Context& context, Tensor x_BSM, const Tokens& tokens) {
  const config::AttentionShape& shape = context.model.attention;
  const std::int64_t rope_dim = shape.qk_rope_head_dim;
  const Tensor low = down(builder, context, "wkv_a", "kv_wa_proj", x_BSM, shape.kv_lora_rank + rope_dim, labels::kv_lora_up_proj);
  const Tensor unscaled = slice(low, 2, 0, shape.kv_lora_rank);
  const Tensor latent = tag(latent_norm(builder, context, "kv_norm", unscaled), "mla_kv");
  Tensor key_rope_shared = slice(low, 2, shape.kv_lora_rank, rope_dim);
  key_rope_shared = rope(builder, context, reshape(key_rope_shared, {context.rows, context.length, 1, rope_dim}), tokens.positions);
  return {latent, reshape(key_rope_shared, {context.rows, context.length, rope_dim})};
}

Up key_value_up(const config::AttentionShape& shape) {
  return {"wkv_b", labels::kv_lora, labels::kv_heads, labels::kv_head_dim, shape.qk_nope_head_dim + shape.v_head_dim};
}

// Attention with the keys and values of all heads, computed for every token that is read.
Attended attend_expanded(Builder& builder, const Context& context, const Query& parts, Tensor x_BSM, const Tokens& tokens,
                         const std::optional<Index>& index) {
  const config::AttentionShape& shape = context.model.attention;
  const std::int64_t nope = shape.qk_nope_head_dim;
  const Tensor query = join_query(context, parts);
  Latent read = build_latent(builder, context, x_BSM, tokens);
  if (!context.trains()) {
    const Tensor all = cached(builder, context, read, tokens);
    read = {slice(all, 2, 0, shape.kv_lora_rank), slice(all, 2, shape.kv_lora_rank, shape.qk_rope_head_dim)};
  }
  const Tensor both = up(builder, context, read.latent, key_value_up(shape));
  const Labels as = latent_labels_of(context.mode()).key;
  const Shape of_heads{context.rows, read.latent.size(1), shape.query_heads, shape.qk_rope_head_dim};
  const Tensor key_nope = constrain("key_nope", slice(both, 3, 0, nope), as);
  const Tensor key_rope = constrain("key_rope", broadcast(read.key_rope_shared, of_heads, {0, 1, 3}), as);
  const Tensor key = tag(constrain("key", graph::concat({key_nope, key_rope}, 3), as), "key_proj");
  const Tensor value = tag(constrain("value", slice(both, 3, nope, shape.v_head_dim), as), "value_proj");
  Attended made = attend(builder, context, query, key, value, tokens, attention_of(context, {}), {}, index ? index->keys : Tensor{});
  if (index) made.index_loss = index_loss(builder, context, *index, query, key, tokens);
  return made;
}

// What a single new token reads of the cache if its keys are chosen: these alone, with their tokens.
void take_chosen(Builder& builder, const Context& context, const Index& index, Tensor& cached_BTD, Tokens& tokens) {
  const ChosenRows taken =
      chosen_rows(builder, index.keys, cached_BTD, tokens.key_order, tokens.key_segments, 0, context.model.attention.index_keys);
  cached_BTD = taken.rows;
  tokens.near_key_order = taken.order;
  tokens.near_key_segments = taken.segments;
}

// The same for few new tokens: their queries are projected to the latent space, instead of all latents to the heads. The heads share what
// is cached as a single head of keys and values alike. Of what they read, the latents are projected to the heads' values; the rest, a
// ninth in DeepSeek's models, is of no use, but leaving it out would take a copy of the cache.
Attended attend_absorbed(Builder& builder, const Context& context, const Query& parts, Tensor x_BSM, Tokens tokens,
                         const std::optional<Index>& index) {
  const config::AttentionShape& shape = context.model.attention;
  const std::int64_t nope = shape.qk_nope_head_dim;
  Tensor all = cached(builder, context, build_latent(builder, context, x_BSM, tokens), tokens);
  // Of keys with equal scores there may be more than a query has room for.
  const bool takes_chosen = index && context.length == 1 && context.settings.boolean("indexer_mask_exact_topk");
  if (takes_chosen) take_chosen(builder, context, *index, all, tokens);
  const graph::Scope scope(builder, "wkv_b");
  const Tensor weight_RHD = up_weight(builder, context, shape.kv_lora_rank, key_value_up(shape));
  const Tensor query_BSHR = einsum("to_latent", "bshd,rhd->bshr", parts.nope, slice(weight_RHD, 2, 0, nope));
  const Tensor one_head = reshape(all, {all.size(0), all.size(1), 1, all.size(2)});
  const Tensor read = attend(builder, context, join_query(context, {query_BSHR, parts.rope}), one_head, one_head, tokens,
                             attention_of(context, {}), {}, index && !takes_chosen ? index->keys : Tensor{})
                          .out;
  return {einsum("from_latent", "bshr,rhd->bshd", slice(read, 3, 0, shape.kv_lora_rank),
                 slice(weight_RHD, 2, nope, shape.v_head_dim)),
          {}};
}

// Whether so few tokens are new that projecting them to the latent space and back takes fewer multiplications than projecting every slot of
// the cache to the heads. Each new token reads those before it; if earlier ones are cached too, both ways take more.
bool absorbs(const Context& context) {
  if (context.trains()) return false;
  if (context.mode() == Context::Mode::decode) return true;
  const config::AttentionShape& shape = context.model.attention;
  const std::int64_t pairs = context.length * (context.length + 1) / 2;
  const std::int64_t projected = shape.kv_lora_rank * (shape.qk_nope_head_dim + shape.v_head_dim);
  const std::int64_t expanded = context.cache_slots * projected + pairs * (shape.qk_head_dim() + shape.v_head_dim);
  const std::int64_t absorbed = context.length * projected + pairs * 2 * (shape.kv_lora_rank + shape.qk_rope_head_dim);
  return absorbed < expanded;
}

}  // namespace

Attended latent_attention(Builder& builder, const Context& context, const std::string& name, Tensor x_BSM, const Tokens& tokens) {
  const graph::Scope scope(builder, name);
  const AttentionLabels as = latent_labels_of(context.mode());
  const Tensor query_in = constrain("inputs_q", x_BSM, as.input);
  const Tensor kv_in = constrain("inputs_kv", x_BSM, as.input);
  const Query query = build_query(builder, context, query_in, tokens);
  std::optional<Index> index;
  if (context.model.attention.index_heads > 0) index = build_index(builder, context, kv_in, query.latent, tokens);
  Attended made = absorbs(context) ? attend_absorbed(builder, context, query, kv_in, tokens, index)
                                   : attend_expanded(builder, context, query, kv_in, tokens, index);
  made.out = project_out(builder, context, constrain("out", made.out, as.out));
  return made;
}

}  // namespace moesh::nn
