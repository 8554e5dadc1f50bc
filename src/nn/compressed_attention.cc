// Shape suffixes: B rows, S tokens, N pools, W pools that are made here, T keys, M embedding, R latent rank, H heads, D head dim, G groups
// of heads, F a group's width.
#include "nn/compressed_attention.h"

#include <cmath>

#include "graph/chosen_keys.h"
#include "nn/attention.h"
#include "nn/cache.h"
#include "nn/norm.h"
#include "nn/pooling.h"
#include "sharding/labels.h"

namespace moesh::nn {
namespace {

Tensor kernel(Builder& builder, const Context& context, const char* name, Shape shape, Labels labels, Role role, std::int64_t inputs) {
  const graph::Scope scope(builder, name);
  return parameter(builder, context, "kernel", std::move(shape), {std::move(labels), normal_fan_in(inputs), role});
}

Tensor latent_of(Builder& builder, const Context& context, Tensor x_BSM) {
  const std::int64_t width = context.model.emb_dim, rank = context.model.attention.q_lora_rank;
  const Tensor weight_MR = kernel(builder, context, "wq_a", {width, rank}, {labels::embed, labels::q_lora},
                                  Role::attention_down_kernel, width);
  return rms_norm(builder, context, "q_norm", einsum("wq_a", "bsm,mr->bsr", x_BSM, weight_MR), {Role::attention_norm_scale});
}

Tensor query_of(Builder& builder, const Context& context, Tensor latent_BSR, const Tokens& tokens, std::int64_t timescale) {
  const config::AttentionShape& shape = context.model.attention;
  const Tensor weight_RHD = kernel(builder, context, "wq_b", {shape.q_lora_rank, shape.query_heads, shape.head_dim},
                                   {labels::q_lora, labels::q_heads, labels::kv}, Role::attention_kernel, shape.q_lora_rank);
  const Tensor normed = rms_norm_without_scale(builder, context, einsum("wq_b", "bsr,rhd->bshd", latent_BSR, weight_RHD));
  const Tensor rotated = rotate_last(builder, context, normed, tokens.positions, timescale);
  return tag(scale(rotated, 1 / std::sqrt(static_cast<double>(shape.head_dim))), "query_proj");
}

Tensor key_of(Builder& builder, const Context& context, Tensor x_BSM, const Tokens& tokens, std::int64_t timescale) {
  const config::AttentionShape& shape = context.model.attention;
  const std::int64_t width = context.model.emb_dim;
  const Tensor weight_MHD = kernel(builder, context, "wkv", {width, shape.kv_heads, shape.head_dim},
                                   {labels::embed, labels::kv_heads, labels::kv_head_dim}, Role::attention_kernel, width);
  const Tensor normed =
      rms_norm(builder, context, "kv_norm", einsum("wkv", "bsm,mhd->bshd", x_BSM, weight_MHD), {Role::attention_norm_scale});
  return tag(rotate_last(builder, context, normed, tokens.positions, timescale), "kv_proj");
}

Labels cache_labels() { return {labels::cache_batch, labels::cache_sequence, labels::cache_kv}; }

// The indexer's pools of all windows, of which those here are written to the cache.
Tensor with_cached_pools(Builder& builder, const Context& context, Tensor pools_BWD, const Windows& windows) {
  if (context.trains()) return pools_BWD;
  const Shape shape{context.rows, windows.count, pools_BWD.size(2)};
  const Tensor before = kept_state(builder, "index_key", shape, pools_BWD.dtype(), cache_labels());
  const Tensor after = write_cache(builder, before, {pools_BWD, windows.pool_slots}, {.skips = true});
  return keep_state(builder, "index_key", before, after, cache_labels());
}

// Which pools each query sees, as choose_keys gives them; absent if it sees all that lie behind it. Nothing learns by this choice.
Tensor choose_pools(Builder& builder, const Context& context, Tensor x_BSM, Tensor latent_BSR, const Tokens& tokens, const Windows& windows,
                    std::int64_t timescale) {
  const config::AttentionShape& shape = context.model.attention;
  const graph::Scope scope(builder, "indexer");
  const std::int64_t width = context.model.emb_dim, heads = shape.index_heads, dim = shape.index_dim;
  const bool chooses = windows.count > shape.index_keys;
  x_BSM = graph::detach(x_BSM);
  const Tensor weight_RF = kernel(builder, context, "q_proj", {shape.q_lora_rank, heads * dim}, {labels::q_lora, labels::indexer_q},
                                  Role::index_down_kernel, shape.q_lora_rank);
  const Tensor flat_BSF = einsum("q_proj", "bsr,rf->bsf", graph::detach(latent_BSR), weight_RF);
  const Tensor heads_BSHD = reshape(flat_BSF, {flat_BSF.size(0), flat_BSF.size(1), heads, dim});
  const Tensor query_BSHD = rotate_last(builder, context, heads_BSHD, tokens.positions, timescale);
  const Tensor pools_BWD = pool(builder, context, x_BSM, chooses ? windows : Windows{windows.tokens},
                                {dim, true, Role::index_down_kernel}, tokens.positions, timescale);
  const Tensor weight_MH = kernel(builder, context, "weights_proj", {width, heads}, {labels::embed, labels::indexer_weights},
                                  Role::index_down_kernel, width);
  const Tensor weights_BSH = cast(einsum("weights_proj", "bsm,mh->bsh", x_BSM, weight_MH), DType::float32);
  if (!chooses) return {};
  const Tensor key_BND = with_cached_pools(builder, context, pools_BWD, windows);
  // Products are summed in float32 either way, and a cast would go over the whole cache.
  const auto wide = [&](Tensor x) { return context.trains() ? cast(x, DType::float32) : x; };
  const bool by_place = !context.trains();
  const std::int64_t tokens_of_key = by_place ? windows.tokens : 1;
  const auto numbers = static_cast<double>(heads * dim);
  const Shape of_scores{context.rows, context.length, windows.count};
  const Tensor scores_BSN = builder.add_one(
      graph::Op::index_scores, "scores", {wide(query_BSHD), wide(key_BND), scale(weights_BSH, 1 / std::sqrt(numbers)), tokens.positions},
      graph::IndexScoresOf{by_place, tokens_of_key}, of_scores, DType::float32);
  return builder.add_one(graph::Op::choose_keys, "keys", {scores_BSN, tokens.positions, tokens.segments, windows.last, windows.segments},
                         graph::ChooseKeysOf{shape.index_keys, true, by_place, tokens_of_key},
                         {context.rows, context.length, graph::words_of_keys(windows.count)}, DType::int32);
}

// The keys that queries read, [B, T, H, D]: of tokens, and behind them so many pools, of which `chosen` says which each query sees.
struct Keys {
  Tensor all_BTHD;
  Tensor chosen = {};  // absent if a query sees all that lie behind it
  std::int64_t pools = 0;
  std::int64_t tokens_of_pool = 0;  // as in graph::AttentionOf
};

// In decoding, the keys of all cached tokens that queries see. One cache has them and the pools behind them, if there are any.
Tensor cached_keys(Builder& builder, const Context& context, Tensor keys_BSHD, Tensor pools_BWD, const Windows& windows,
                   const Tokens& tokens, std::int64_t slots) {
  const std::int64_t dim = keys_BSHD.size(3);
  const Tensor keys_BSD = reshape(keys_BSHD, {context.rows, context.length, dim});
  const Tensor before = kept_state(builder, "key", {context.rows, slots + windows.count, dim}, keys_BSD.dtype(), cache_labels());
  graph::CacheWriteOf write{.wraps = slots < context.cache_slots, .pools = windows.count};
  write.skips = windows.count > 0;
  std::vector<Tensor> written{keys_BSD, tokens.positions};
  if (windows.count > 0) written.insert(written.end(), {pools_BWD, windows.pool_slots});
  const Tensor after = keep_state(builder, "key", before, write_cache(builder, before, written, write), cache_labels());
  return reshape(after, {context.rows, slots + windows.count, 1, dim});
}

// What a single new token reads if pools are chosen for it: the keys of tokens, and these pools alone.
void take_chosen(Builder& builder, const Context& context, Keys& keys, Tokens& tokens) {
  const std::int64_t near = keys.all_BTHD.size(1) - keys.pools, count = context.model.attention.index_keys;
  const ChosenRows taken = chosen_rows(builder, keys.chosen, keys.all_BTHD, tokens.key_order, tokens.key_segments, near, count);
  keys = {taken.rows, {}, count};
  tokens.key_order = taken.order;
  tokens.key_segments = taken.segments;
}

// The keys of tokens, and pools if the layer has them and rows are long enough for any. The tokens get order and segments of these keys.
Keys keys_of(Builder& builder, const Context& context, Tensor x_BSM, Tensor latent_BSR, Tokens& tokens, Tensor keys_BSHD,
             const config::LayerShape& layer, std::int64_t timescale) {
  const bool is_short = layer.chooses_pools();
  Windows windows;
  Tensor pools_BWD, chosen;
  if (layer.pooled > 0) {
    const graph::Scope scope(builder, is_short ? "csa_compressor" : "hca_compressor");
    windows = windows_of(builder, context, layer.pooled, tokens);
    const std::int64_t dim = context.model.attention.head_dim;
    pools_BWD = pool(builder, context, x_BSM, windows, {dim, is_short}, tokens.positions, timescale);
    if (is_short) chosen = choose_pools(builder, context, x_BSM, latent_BSR, tokens, windows, timescale);
  }
  if (!context.trains()) {
    const Tensor all_BTHD = cached_keys(builder, context, keys_BSHD, pools_BWD, windows, tokens, slots_of(context, layer));
    if (windows.count == 0) return {all_BTHD};
    tokens.key_order = windows.key_order;
    tokens.key_segments = windows.key_segments;
    Keys keys{all_BTHD, chosen, windows.count, windows.tokens};
    if (chosen && context.length == 1) take_chosen(builder, context, keys, tokens);
    tokens.near_key_order = tokens.key_order;
    tokens.near_key_segments = tokens.key_segments;
    return keys;
  }
  if (windows.count == 0) return {keys_BSHD};
  // As in MaxText, what comes first is told by positions here, which are all 0 in padding.
  tokens.order = tokens.positions;
  tokens.key_order = graph::concat({tokens.positions, windows.last}, 1);
  tokens.key_segments = graph::concat({tokens.segments, windows.segments}, 1);
  const Tensor pools_BNHD = reshape(pools_BWD, {context.rows, windows.count, 1, keys_BSHD.size(3)});
  return {graph::concat({keys_BSHD, pools_BNHD}, 1), chosen, windows.count};
}

// The heads in groups, each projected to a narrow vector, then all of these together.
Tensor project_groups(Builder& builder, const Context& context, Tensor heads_BSHD) {
  const config::AttentionShape& shape = context.model.attention;
  const std::int64_t groups = shape.out_groups, rank = shape.out_rank, width = shape.query_heads * shape.head_dim / groups;
  const Tensor weight_GFR =
      kernel(builder, context, "o_a_proj", {groups, width, rank}, {labels::o_groups, labels::q_heads, labels::o_lora_up_proj},
             Role::attention_group_kernel, groups * width);
  const Tensor in_BSGF = reshape(heads_BSHD, {heads_BSHD.size(0), heads_BSHD.size(1), groups, width});
  const Tensor made_BSGR = einsum("o_a_proj", "bsgf,gfr->bsgr", in_BSGF, weight_GFR);
  const Tensor weight_RM = kernel(builder, context, "o_b_proj", {groups * rank, context.model.emb_dim},
                                  {labels::o_lora_up_proj, labels::embed}, Role::attention_flat_out_kernel, groups * rank);
  const Tensor flat_BSR = reshape(made_BSGR, {heads_BSHD.size(0), heads_BSHD.size(1), groups * rank});
  return tag(einsum("o_b_proj", "bsr,rm->bsm", flat_BSR, weight_RM), "out_proj");
}

}  // namespace

Tensor compressed_attention(Builder& builder, const Context& context, const std::string& name, Tensor x_BSM, const Tokens& tokens,
                            const config::LayerShape& layer) {
  const graph::Scope scope(builder, name);
  const std::int64_t timescale = context.settings.integer(layer.pooled > 0 ? "compressed_rope_max_timescale" : "rope_max_timescale");
  const Tensor latent_BSR = latent_of(builder, context, x_BSM);
  const Tensor query_BSHD = query_of(builder, context, latent_BSR, tokens, timescale);
  const Tensor keys_BSHD = key_of(builder, context, x_BSM, tokens, timescale);
  Tokens of_keys = tokens;
  const Keys keys = keys_of(builder, context, x_BSM, latent_BSR, of_keys, keys_BSHD, layer, timescale);
  graph::AttentionOf of = attention_of(context, layer);
  of.pools = keys.pools;
  of.tokens_of_pool = keys.tokens_of_pool;
  const Tensor sinks = parameter(builder, context, "sinks", {context.model.attention.query_heads},
                                 {{labels::none}, zeros(), Role::attention_sinks});
  const Tensor read_BSHD = attend(builder, context, query_BSHD, keys.all_BTHD, keys.all_BTHD, of_keys, of, sinks, keys.chosen).out;
  // What is read of rotated keys is rotated back.
  const Tensor turned_BSHD = rotate_last(builder, context, read_BSHD, tokens.positions, timescale, /*back=*/true);
  return project_groups(builder, context, tag(turned_BSHD, "attention_out"));
}

}  // namespace moesh::nn
