// RMS normalisation over the last dim, with a learned scale.
#pragma once

#include "nn/context.h"

namespace moesh::nn {

Tensor rms_norm(Builder& builder, const Context& context, const std::string& name, Tensor x, Role scale_role = Role::norm_scale);

}  // namespace moesh::nn
