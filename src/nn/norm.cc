#include "nn/norm.h"

#include "sharding/labels.h"

namespace moesh::nn {

Tensor rms_norm(Builder& builder, const Context& context, const std::string& name, Tensor x) {
  const graph::Scope scope(builder, name);
  const Tensor scale = kernel(builder, context, "scale", {x.shape().back()}, {labels::norm}, ones());
  return builder.add_one(graph::Op::rms_norm, "", {x, scale}, graph::RmsNormOf{context.model.norm_epsilon}, x.shape(),
                         x.dtype());
}

}  // namespace moesh::nn
