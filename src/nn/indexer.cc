// Shape suffixes: B rows, S length, T keys, M embedding, R latent rank, H heads, D head dim.
#include "nn/indexer.h"

#include <cmath>

#include "graph/chosen_keys.h"
#include "nn/cache.h"
#include "nn/norm.h"
#include "nn/rope.h"
#include "sharding/labels.h"

namespace moesh::nn {
namespace {

constexpr double kNormEpsilon = 1e-6;

// As in MaxText, the norm's parameters and the heads' weights are float32 whatever the other weights are, and the norm's are whole on every
// device.
Tensor norm_keys(Builder& builder, Tensor x) {
  const graph::Scope scope(builder, "k_norm");
  const auto of_width = [&](const char* name, graph::Initializer starts) {
    return builder.parameter(name, {x.shape().back()}, DType::float32, {{labels::none}, starts, Role::index_norm});
  };
  const Tensor scale = of_width("scale", ones()), bias = of_width("bias", zeros());
  return cast(layer_norm_with(builder, cast(x, DType::float32), scale, bias, kNormEpsilon), x.dtype());
}

// Rotates the first dims of each head, as many as attention rotates.
Tensor rotate(Builder& builder, const Context& context, Tensor x_BSHD, const Tokens& tokens) {
  const std::int64_t turned = context.model.attention.qk_rope_head_dim, dim = x_BSHD.size(3);
  const Tensor first = rope_in_halves(builder, context, slice(x_BSHD, 3, 0, turned), tokens.positions);
  return turned == dim ? first : graph::concat({first, slice(x_BSHD, 3, turned, dim - turned)}, 3);
}

Tensor build_queries(Builder& builder, const Context& context, Tensor latent_BSR, const Tokens& tokens) {
  const config::AttentionShape& shape = context.model.attention;
  const graph::Scope scope(builder, "wq_b");
  const Tensor weight_RHD =
      parameter(builder, context, "kernel", {shape.q_lora_rank, shape.index_heads, shape.index_dim},
                {{labels::q_lora, labels::q_heads, labels::kv}, normal_fan_in(shape.q_lora_rank), Role::index_kernel});
  return rotate(builder, context, einsum("", "bsr,rhd->bshd", latent_BSR, weight_RHD), tokens);
}

Tensor build_keys(Builder& builder, const Context& context, Tensor x_BSM, const Tokens& tokens) {
  const std::int64_t width = context.model.emb_dim, dim = context.model.attention.index_dim;
  Tensor key_BSD;
  {
    const graph::Scope scope(builder, "wk");
    const Tensor weight_MD =
        parameter(builder, context, "kernel", {width, dim}, {{labels::embed, labels::kv}, normal_fan_in(width), Role::index_down_kernel});
    key_BSD = einsum("", "bsm,md->bsd", x_BSM, weight_MD);
  }
  key_BSD = norm_keys(builder, key_BSD);
  const Shape of_head{context.rows, context.length, 1, dim};
  return reshape(rotate(builder, context, reshape(key_BSD, of_head), tokens), {context.rows, context.length, dim});
}

// How much each head counts for each query.
Tensor build_weights(Builder& builder, const Context& context, Tensor x_BSM) {
  const std::int64_t width = context.model.emb_dim, heads = context.model.attention.index_heads;
  const graph::Scope scope(builder, "weights_proj");
  const Tensor weight_MH = builder.parameter("kernel", {width, heads}, DType::float32,
                                             {{labels::embed, labels::q_heads}, normal_fan_in(width), Role::index_down_kernel});
  const auto numbers = static_cast<double>(heads * context.model.attention.index_dim);
  return graph::scale(einsum("", "bsm,mh->bsh", cast(x_BSM, DType::float32), weight_MH), 1 / std::sqrt(numbers));
}

// Whether the key at a place has it as its index: in caches, and in rows whose tokens are stored in order.
bool lie_by_place(const Context& context) { return !context.trains() || context.balanced_over == 1; }

Tensor choose(Builder& builder, const Context& context, const std::string& name, Tensor scores_BST, const Tokens& tokens,
              graph::ChooseKeysOf of) {
  of.keys_by_place = lie_by_place(context);
  const Tensor order = context.trains() ? tokens.order : tokens.key_order;
  const Tensor segments = context.trains() ? tokens.segments : tokens.key_segments;
  return builder.add_one(graph::Op::choose_keys, name, {scores_BST, tokens.order, tokens.segments, order, segments}, of,
                         {scores_BST.size(0), scores_BST.size(1), graph::words_of_keys(scores_BST.size(2))}, DType::int32);
}

}  // namespace

std::optional<Index> build_index(Builder& builder, const Context& context, Tensor x_BSM, Tensor latent_BSR, const Tokens& tokens) {
  const graph::Scope scope(builder, "indexer");
  // The indexer learns from its own loss alone, and nothing else does.
  x_BSM = graph::detach(x_BSM);
  const Tensor query_BSHD = build_queries(builder, context, graph::detach(latent_BSR), tokens);
  const Tensor weights_BSH = build_weights(builder, context, x_BSM);
  Tensor key_BTD = build_keys(builder, context, x_BSM, tokens);
  const std::int64_t keys = context.trains() ? context.length : context.cache_slots;
  if (keys <= context.model.attention.index_keys) return std::nullopt;
  if (!context.trains()) {
    key_BTD = update_cache(builder, context, "index_key", key_BTD, tokens.positions, context.cache_slots,
                           {labels::cache_batch, labels::cache_sequence, labels::cache_kv});
  }
  const Tensor scores_BST =
      builder.add_one(graph::Op::index_scores, "scores", {query_BSHD, key_BTD, weights_BSH, tokens.order},
                      graph::IndexScoresOf{lie_by_place(context)}, {context.rows, context.length, keys}, DType::float32);
  const graph::ChooseKeysOf best{context.model.attention.index_keys, context.settings.boolean("indexer_mask_exact_topk")};
  return Index{scores_BST, tag(choose(builder, context, "keys", scores_BST, tokens, best), "indexer_cutoff_threshold")};
}

Tensor index_loss(Builder& builder, const Context& context, const Index& index, Tensor query_BSHD, Tensor key_BTHD, const Tokens& tokens) {
  const double factor = context.settings.real("indexer_loss_scaling_factor");
  if (!context.trains() || factor <= 0) return {};
  const graph::Scope scope(builder, "indexer_loss");
  // While the indexer warms up, all keys are compared that a query would see without it.
  const bool compares_all = !context.settings.boolean("indexer_sparse_training");
  const Tensor keys = compares_all ? choose(builder, context, "keys", index.scores, tokens, {index.scores.size(2)}) : index.keys;
  const Tensor shares_BST =
      builder.add_one(graph::Op::attention_shares, "shares", {query_BSHD, key_BTHD, keys}, {}, index.scores.shape(), DType::float32);
  const Tensor each_BS =
      builder.add_one(graph::Op::index_loss, "each", {index.scores, shares_BST, keys}, {}, {context.rows, context.length}, DType::float32);
  return graph::scale(reduce(graph::Reduction::sum, each_BS, {0, 1}), factor / static_cast<double>(context.rows * context.length));
}

}  // namespace moesh::nn
