// DeepSeek's indexer: a few narrow heads score the keys for each query, and attention sees those with the best scores alone.
#pragma once

#include <optional>

#include "nn/context.h"

namespace moesh::nn {

struct Index {
  Tensor scores;  // [B, S, T]
  Tensor keys;    // those that each query sees, as choose_keys gives them
};

// `latent`: of the queries, [B, S, R]. Nothing is chosen if a query may see as many keys as there are. In decoding the indexer's keys are
// cached beside those of attention.
std::optional<Index> build_index(Builder& builder, const Context& context, Tensor x, Tensor latent, const Tokens& tokens);

// How far the scores are from what attention looks at, [B, S, heads, dim] and [B, T, heads, dim]: a scalar, from which nothing flows back
// to these. Absent unless the indexer is trained.
Tensor index_loss(Builder& builder, const Context& context, const Index& index, Tensor query, Tensor key, const Tokens& tokens);

}  // namespace moesh::nn
