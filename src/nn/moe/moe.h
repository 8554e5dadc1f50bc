// The routed experts of a layer, by the strategy that the settings choose.
#pragma once

#include "nn/context.h"
#include "nn/moe/experts.h"
#include "nn/moe/router.h"

namespace moesh::nn {

struct MoeResult {
  Tensor out;           // [B, S, M]
  Tensor balance_loss;  // a scalar; absent when the model has none
  Tensor load;          // [E + 1]: tokens of each expert, then the number of dropped choices; only in training
};

// The label of the input dim of the router's kernel, the router's input, if it differs from the experts' input, and whether a table gives
// each token's experts.
struct RouterInput {
  const char* label;
  Tensor x = {};
  bool is_given = false;
};
MoeResult moe(Builder& builder, const Context& context, const std::string& name, Tensor x, const RouterInput& router, const Tokens& tokens);

// The strategies. All have the same parameters: the tokens, the router's scores and the experts' weights.
MoeResult dense_moe(Builder& builder, const Context& context, Tensor x, Scores scores, const Experts& experts);
MoeResult capacity_moe(Builder& builder, const Context& context, Tensor x, Scores scores, const Experts& experts);
MoeResult sparse_moe(Builder& builder, const Context& context, Tensor x, Scores scores, const Experts& experts);

// The result of a strategy, given its output; `dropped` is a scalar, absent if nothing can be dropped.
MoeResult result_of(Builder& builder, const Context& context, Tensor out, const Scores& scores, const Routed& routed, Tensor dropped);

// The constraint of a weight: its gradient may stay a partial sum over the axes that shard none of its dims, see train/passes.h.
graph::ConstraintOf of_weight(graph::ConstraintOf of);

// Constrains the scores, only once if both are the same value.
Scores constrain_scores(Scores scores, const Labels& labels);

}  // namespace moesh::nn
