#include "nn/norm.h"

#include "sharding/labels.h"

namespace moesh::nn {

Tensor rms_norm(Builder& builder, const Context& context, const std::string& name, Tensor x, Role scale_role) {
  const graph::Scope scope(builder, name);
  const Tensor scale = parameter(builder, context, "scale", {x.shape().back()}, {{labels::norm}, ones(), scale_role});
  return builder.add_one(graph::Op::rms_norm, "", {x, scale}, graph::RmsNormOf{context.model.norm_epsilon}, x.shape(),
                         x.dtype());
}

}  // namespace moesh::nn
