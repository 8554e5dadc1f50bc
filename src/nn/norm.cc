#include "nn/norm.h"

#include "sharding/labels.h"

namespace moesh::nn {

Tensor rms_norm(Builder& builder, const Context& context, const std::string& name, Tensor x, const NormOptions& options) {
  const graph::Scope scope(builder, name);
  const bool above_one = context.model.norms_above_one;
  Tensor scale = parameter(builder, context, "scale", {x.shape().back()}, {{labels::norm}, above_one ? zeros() : ones(), options.scale_role});
  if (above_one) scale = unary(graph::Unary::offset, scale, 1);
  const double epsilon = options.epsilon < 0 ? context.model.norm_epsilon : options.epsilon;
  return builder.add_one(graph::Op::rms_norm, "", {x, scale}, graph::RmsNormOf{epsilon}, x.shape(), x.dtype());
}

}  // namespace moesh::nn
