// The MLP of dense layers and of shared experts: one input projection, or several whose activated results are multiplied.
#pragma once

#include "nn/context.h"

namespace moesh::nn {

struct MlpOptions {
  bool bias = false;
  bool norms = false;  // applies a layer norm of its own to its input
};

Tensor mlp(Builder& builder, const Context& context, const std::string& name, Tensor x, std::int64_t width,
           const MlpOptions& options = {});

// The shared experts: an MLP that every token goes through besides the routed experts.
Tensor shared_experts(Builder& builder, const Context& context, Tensor x, std::int64_t width, const std::string& name = "shared_experts");

// Casts the input of an activation to float32 if activations_in_float32 asks for it.
Tensor wide_activation(const Context& context, Tensor x);

// The first activation function of the settings.
Tensor first_activation(const Context& context, Tensor x);

}  // namespace moesh::nn
