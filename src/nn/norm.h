// Norms over the last dim.
#pragma once

#include "nn/context.h"

namespace moesh::nn {

struct NormOptions {
  Role scale_role = Role::norm_scale;
  double epsilon = -1;  // -1: the model's
};

// By the root of the mean square, with a learned scale.
Tensor rms_norm(Builder& builder, const Context& context, const std::string& name, Tensor x, const NormOptions& options = {});
Tensor rms_norm_without_scale(Builder& builder, const Context& context, Tensor x);

// The same of what x is more than its mean, and with a learned bias.
Tensor layer_norm(Builder& builder, const Context& context, const std::string& name, Tensor x);

}  // namespace moesh::nn
