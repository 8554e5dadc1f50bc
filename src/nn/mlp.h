// The MLP of dense layers and of shared experts: one projection, or several whose product is taken.
#pragma once

#include "nn/context.h"

namespace moesh::nn {

struct MlpOptions {
  bool bias = false;
  bool norms = false;  // its input, by a layer norm of its own
};

Tensor mlp(Builder& builder, const Context& context, const std::string& name, Tensor x, std::int64_t width,
           const MlpOptions& options = {});

// The MLP that every token passes beside the routed experts.
Tensor shared_experts(Builder& builder, const Context& context, Tensor x, std::int64_t width);

// What is activated: in float32 where activations_in_float32 asks for it.
Tensor wide_activation(const Context& context, Tensor x);

// The product of the activated projections: activations[0](a) * activations[1](b).
Tensor gate(const Context& context, Tensor a, Tensor b);

}  // namespace moesh::nn
