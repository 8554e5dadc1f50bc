#include "nn/norm.h"

#include <numeric>

#include "sharding/labels.h"

namespace moesh::nn {
namespace {

Tensor normed(Builder& builder, Tensor x, Tensor scale, double epsilon) {
  return builder.add_one(graph::Op::rms_norm, "", {x, scale}, graph::RmsNormOf{epsilon}, x.shape(), x.dtype());
}

Tensor centred(Tensor x) {
  const int last = x.rank() - 1;
  std::vector<int> others(static_cast<std::size_t>(last));
  std::iota(others.begin(), others.end(), 0);
  const Tensor mean = scale(reduce(graph::Reduction::sum, x, {last}), 1 / static_cast<double>(x.size(last)));
  return binary(graph::Binary::subtract, x, broadcast(mean, x.shape(), std::move(others)));
}

}  // namespace

Tensor norm_scale(Builder& builder, const Context& context, const std::string& name, std::int64_t width, bool has_label,
                  Role role) {
  const graph::Scope scope(builder, name);
  const bool above_one = context.model.norm_scale_is_offset;
  graph::ParameterOf of{{labels::norm}, above_one ? zeros() : ones(), role};
  if (!has_label) {
    of.labels = {labels::none};
    of.labelled = graph::ParameterOf::Labelled::in_a_stack;
  }
  const Tensor scale = parameter(builder, context, "scale", {width}, std::move(of));
  return above_one ? unary(graph::Unary::offset, scale, 1) : scale;
}

Tensor rms_norm_with(Builder& builder, const std::string& name, Tensor x, Tensor scale, double epsilon) {
  const graph::Scope scope(builder, name);
  return normed(builder, x, scale, epsilon);
}

Tensor rms_norm(Builder& builder, const Context& context, const std::string& name, Tensor x, const NormOptions& options) {
  const Tensor scale = norm_scale(builder, context, name, x.shape().back(), context.model.labels_layer_norms, options.scale_role);
  return rms_norm_with(builder, name, x, scale, options.epsilon < 0 ? context.model.norm_epsilon : options.epsilon);
}

Tensor rms_norm_without_scale(Builder& builder, const Context& context, Tensor x, double epsilon) {
  return normed(builder, x, graph::fill(builder, 1, {x.shape().back()}, x.dtype()), epsilon < 0 ? context.model.norm_epsilon : epsilon);
}

Tensor layer_norm_with(Builder& builder, Tensor x, Tensor scale, Tensor bias, double epsilon) {
  return add_bias(normed(builder, centred(x), scale, epsilon), bias);
}

Tensor layer_norm(Builder& builder, const Context& context, const std::string& name, Tensor x) {
  const Tensor out = rms_norm(builder, context, name, centred(x));
  const graph::Scope scope(builder, name);
  return add_bias(out, parameter(builder, context, "bias", {x.shape().back()}, {{labels::norm}, zeros(), Role::norm_bias}));
}

}  // namespace moesh::nn
