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
// A norm's learned scale, and the norm with a scale that is given, for norms that share one. Norms of layers are labelled or not as the
// model's are.
Tensor norm_scale(Builder& builder, const Context& context, const std::string& name, std::int64_t width, bool has_label,
                  Role role = Role::norm_scale);
Tensor rms_norm_with(Builder& builder, const std::string& name, Tensor x, Tensor scale, double epsilon);
Tensor rms_norm_without_scale(Builder& builder, const Context& context, Tensor x, double epsilon = -1);

// A layer norm: the same for x minus its mean, with a learned bias.
Tensor layer_norm(Builder& builder, const Context& context, const std::string& name, Tensor x);
Tensor layer_norm_with(Builder& builder, Tensor x, Tensor scale, Tensor bias, double epsilon);

}  // namespace moesh::nn
