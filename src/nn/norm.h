// Norms over the last dim.
#pragma once

#include "nn/context.h"

namespace moesh::nn {

struct NormOptions {
  Role scale_role = Role::norm_scale;
  double epsilon = -1;  // -1: the model's
};

// Divides x by its root mean square and multiplies it by a learned scale.
Tensor rms_norm(Builder& builder, const Context& context, const std::string& name, Tensor x, const NormOptions& options = {});
Tensor rms_norm_without_scale(Builder& builder, const Context& context, Tensor x);

// A layer norm: the same for x minus its mean, with a learned bias.
Tensor layer_norm(Builder& builder, const Context& context, const std::string& name, Tensor x);

// The learned parameters of a norm, for norms that share them.
struct NormParameters {
  Tensor scale;
  Tensor bias;  // absent in a norm by the root mean square
};
NormParameters rms_norm_parameters(Builder& builder, const Context& context, const std::string& name, std::int64_t width,
                                   Role scale_role = Role::norm_scale);
NormParameters layer_norm_parameters(Builder& builder, const Context& context, const std::string& name, std::int64_t width);
// The norm with these parameters.
Tensor norm(Builder& builder, const std::string& name, Tensor x, const NormParameters& parameters, double epsilon);

}  // namespace moesh::nn
