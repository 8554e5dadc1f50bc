// RMS normalisation over the last dim, with a learned scale.
#pragma once

#include "nn/context.h"

namespace moesh::nn {

struct NormOptions {
  Role scale_role = Role::norm_scale;
  double epsilon = -1;  // -1: the model's
};

Tensor rms_norm(Builder& builder, const Context& context, const std::string& name, Tensor x, const NormOptions& options = {});

}  // namespace moesh::nn
