// Which experts a token goes to, and with which weights.
#pragma once

#include "nn/context.h"

namespace moesh::nn {

struct Scores {
  Tensor choosing;   // [B, S, E]: what top-k selects by, after score function and bias
  Tensor weighing;   // [B, S, E]: what the weights come from; may be the same value
  // Only if experts are drawn at random, regardless of the scores: the tokens' numbers [B, S], and the layer's key [2].
  Tensor numbers = {};
  Tensor draw_key = {};
  Tensor given = {};         // [B, S, K], int32: the experts of each token, if a table gives them, regardless of the scores
  Tensor expert_scale = {};  // [E]: factors of the experts' weights; absent if there are none
};

struct Routed {
  Tensor weights;  // [B, S, K]
  Tensor ids;      // [B, S, K]
};

// `label`: of the input dim of the router's kernel. `is_given`: a table gives each token's experts.
Scores router_scores(Builder& builder, const Context& context, Tensor x, const char* label, const Tokens& tokens,
                     bool is_given);

// The learned scale of each expert, which multiplies the weights for it.
Tensor expert_scale(Builder& builder, const Context& context);

graph::TopKOf routing_of(const Context& context);
Routed route(Builder& builder, const Context& context, const Scores& scores);

// The weights laid out over all experts, [B, S, E]; zero for experts that a token does not go to.
Tensor spread(Builder& builder, const Context& context, const Routed& routed);

// How many tokens of each row chose each expert, [B, E]; of all rows, [E].
Tensor choices(Builder& builder, const Context& context, const Routed& routed);
Tensor expert_load(Builder& builder, const Context& context, const Routed& routed);

// Absent if the model has no such loss.
Tensor balance_loss(Builder& builder, const Context& context, const Scores& scores, const Routed& routed);

}  // namespace moesh::nn
