// Which experts a token goes to, and with which weights.
#pragma once

#include "nn/context.h"

namespace moesh::nn {

struct Scores {
  Tensor choosing;   // [B, S, E]: what top-k looks at, after score function and bias
  Tensor weighing;   // [B, S, E]: what the weights come from; the same value unless a bias only chooses
  // Where experts are drawn at random, whatever the scores: the tokens' numbers [B, S], and the layer's key [2].
  Tensor numbers = {};
  Tensor draw_key = {};
  Tensor expert_scale = {};  // [E]: what the weights for each are multiplied with; absent where they are not
};

struct Routed {
  Tensor weights;  // [B, S, K]
  Tensor ids;      // [B, S, K]
};

// `label`: of the router kernel's input dim.
Scores router_scores(Builder& builder, const Context& context, Tensor x, const char* label, const Tokens& tokens);

// What a learned scale of each expert multiplies the weights for it with.
Tensor expert_scale(Builder& builder, const Context& context);

graph::TopKOf routing_of(const Context& context);
Routed route(Builder& builder, const Context& context, const Scores& scores);

// The weights laid out over all experts, [B, S, E]; zero where a token does not go.
Tensor spread(Builder& builder, const Context& context, const Routed& routed);

// How many tokens of each row chose each expert, [B, E]; of all rows, [E].
Tensor choices(Builder& builder, const Context& context, const Routed& routed);
Tensor expert_load(Builder& builder, const Context& context, const Routed& routed);

// Nothing when the model has no such loss.
Tensor balance_loss(Builder& builder, const Context& context, const Scores& scores, const Routed& routed);

}  // namespace moesh::nn
