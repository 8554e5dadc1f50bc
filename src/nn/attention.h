// Multi-head attention with grouped keys and values.
#pragma once

#include "nn/context.h"

namespace moesh::nn {

Tensor attention(Builder& builder, const Context& context, const std::string& name, Tensor x, const Tokens& tokens,
                 const config::LayerShape& layer);

// What the settings say of the scores; they have their scale already.
graph::AttentionOf attention_of(const Context& context, const config::LayerShape& layer);

// New keys and values among those that were kept, where there is a cache.
void remember_heads(Builder& builder, const Context& context, Tensor& key, Tensor& value, const Tokens& tokens);

// The product of scores and values on projected heads, [B, S, heads, dim], laid out for it and back.
Tensor attend(Builder& builder, const Context& context, Tensor query, Tensor key, Tensor value, const Tokens& tokens,
              graph::AttentionOf of, Tensor sinks = {});

// [B, S, heads, dim] to [B, S, M].
Tensor project_out(Builder& builder, const Context& context, Tensor heads);

}  // namespace moesh::nn
