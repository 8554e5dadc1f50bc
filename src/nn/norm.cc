#include "nn/norm.h"

#include "sharding/labels.h"

namespace moesh::nn {

Tensor rms_norm(Builder& builder, const Context& context, const std::string& name, Tensor x, const NormOptions& options) {
  const graph::Scope scope(builder, name);
  const Tensor scale = parameter(builder, context, "scale", {x.shape().back()}, {{labels::norm}, ones(), options.scale_role});
  const double epsilon = options.epsilon < 0 ? context.model.norm_epsilon : options.epsilon;
  return builder.add_one(graph::Op::rms_norm, "", {x, scale}, graph::RmsNormOf{epsilon}, x.shape(), x.dtype());
}

}  // namespace moesh::nn
