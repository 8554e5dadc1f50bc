// The routed experts of a layer, by the strategy that the settings choose.
#pragma once

#include "nn/context.h"
#include "nn/moe/experts.h"
#include "nn/moe/router.h"

namespace moesh::nn {

struct MoeResult {
  Tensor out;           // [B, S, M]
  Tensor balance_loss;  // a scalar; absent when the model has none
  Tensor load;          // [E], tokens of each expert; absent unless the router's bias is balanced by it
};

// `label`: of the router kernel's input dim.
MoeResult moe(Builder& builder, const Context& context, const std::string& name, Tensor x, const char* label);

// The strategies. Each is given what the others are: the tokens, the router's scores and the experts' weights.
MoeResult dense_moe(Builder& builder, const Context& context, Tensor x, Scores scores, const Experts& experts);
MoeResult capacity_moe(Builder& builder, const Context& context, Tensor x, Scores scores, const Experts& experts);
MoeResult sparse_moe(Builder& builder, const Context& context, Tensor x, Scores scores, const Experts& experts);

// Constrains the scores of a strategy that works on global shapes, once when both are one value.
Scores constrain_scores(const Context& context, Scores scores, const Labels& labels);

}  // namespace moesh::nn
