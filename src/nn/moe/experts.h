// The weights of the routed experts and the function between their projections.
#pragma once

#include "nn/context.h"

namespace moesh::nn {

struct Experts {
  Tensor wi_0, wi_1, wo;                 // [E, M, F], [E, M, F], [E, F, M]
  Tensor wi_0_bias, wi_1_bias, wo_bias;  // [E, F], [E, F], [E, M]; absent without biases
};

Experts experts(Builder& builder, const Context& context);

// The label whose axes shard the experts where they compute: exp, or expert_only where the rules know only that one.
const char* expert_label(const config::Settings& settings);

Tensor expert_gate(const Context& context, Tensor a, Tensor b);

}  // namespace moesh::nn
