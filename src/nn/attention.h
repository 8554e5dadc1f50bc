// Multi-head attention with grouped keys and values.
#pragma once

#include "nn/context.h"

namespace moesh::nn {

Tensor attention(Builder& builder, const Context& context, const std::string& name, Tensor x, const Tokens& tokens,
                 const config::LayerShape& layer);

// The attributes of attention from the settings. Its score_scale is 1, because queries are scaled before.
graph::AttentionOf attention_of(const Context& context, const config::LayerShape& layer);

// Writes new keys and values into a KV cache of so many slots, if there is one, and replaces them with all that are cached.
void update_kv_cache(Builder& builder, const Context& context, Tensor& key, Tensor& value, const Tokens& tokens, std::int64_t slots);

// The labels of the values around attention.
struct AttentionLabels {
  Labels input, query, key, out;
};

struct Attended {
  Tensor out;
  Tensor highest;          // the highest score of each head, [heads]; only in training with use_qk_clip
  Tensor index_loss = {};  // a scalar; only in training with a loss of the indexer
};

// The attention op on projected heads, [B, S, heads, dim], laid out as it needs them. `chosen`: the keys that queries see; absent if they
// see all.
Attended attend(Builder& builder, const Context& context, Tensor query, Tensor key, Tensor value, const Tokens& tokens,
                graph::AttentionOf of, Tensor sinks = {}, Tensor chosen = {});

// The labels of a projection: none where context parallelism of decoding (ici_context_autoregressive_parallelism) needs it whole.
Labels unless_context_decodes(const Context& context, Labels labels);

// Projects [B, S, heads, dim] to [B, S, M], with a kernel of these labels.
Tensor project_out(Builder& builder, const Context& context, Tensor heads);
Tensor project_out(Builder& builder, const Context& context, Tensor heads, const Labels& labels);

}  // namespace moesh::nn
