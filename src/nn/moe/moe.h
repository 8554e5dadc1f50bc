// The routed experts of a layer, by the strategy that the settings choose.
#pragma once

#include "nn/context.h"
#include "nn/moe/experts.h"
#include "nn/moe/router.h"

namespace moesh::nn {

struct MoeResult {
  Tensor out;           // [B, S, M]
  Tensor balance_loss;  // a scalar; absent when the model has none
  Tensor load;          // [E + 1], tokens of each expert, and last how many of their choices were dropped; only in training
};

// What the router reads, where that is not what the experts do, and the label of its kernel's input dim.
struct RouterInput {
  const char* label;
  Tensor x = {};
};
MoeResult moe(Builder& builder, const Context& context, const std::string& name, Tensor x, const RouterInput& router, const Tokens& tokens);

// The strategies. Each is given what the others are: the tokens, the router's scores and the experts' weights.
MoeResult dense_moe(Builder& builder, const Context& context, Tensor x, Scores scores, const Experts& experts);
MoeResult capacity_moe(Builder& builder, const Context& context, Tensor x, Scores scores, const Experts& experts);
MoeResult sparse_moe(Builder& builder, const Context& context, Tensor x, Scores scores, const Experts& experts);

// What a strategy gives besides its output; `dropped` is a scalar, absent where nothing can be dropped.
MoeResult result_of(Builder& builder, const Context& context, Tensor out, const Scores& scores, const Routed& routed, Tensor dropped);

// Constrains the scores, once when both are one value.
Scores constrain_scores(const Context& context, Scores scores, const Labels& labels);

}  // namespace moesh::nn
