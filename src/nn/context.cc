#include "nn/context.h"

#include <cmath>

#include "sharding/labels.h"

namespace moesh::nn {

DType kept_dtype(const Context& context, DType read_in) {
  const DType weight = context.model.weight_dtype;
  return !context.trains() && size_of(read_in) < size_of(weight) ? read_in : weight;
}

Tensor parameter(Builder& builder, const Context& context, const std::string& name, Shape shape, graph::ParameterOf of, DType read_in) {
  const Labels labels = of.labels;
  const Tensor kept = builder.parameter(name, std::move(shape), kept_dtype(context, read_in), std::move(of));
  // Where parts take turns, MaxText asks for weights in the layout in which they are kept before it casts them.
  return cast(context.is_part ? constrain(name + "_as_kept", kept, labels) : kept, read_in);
}

Tensor parameter(Builder& builder, const Context& context, const std::string& name, Shape shape, graph::ParameterOf of) {
  return parameter(builder, context, name, std::move(shape), std::move(of), context.model.compute_dtype);
}

sharding::Spec Context::spec_of(const sharding::Constraint& constraint) const {
  if (mesh == nullptr) return sharding::whole_spec(constraint.labels.size());
  return sharding::without_size_one(sharding::lay(constraint, settings.rules("logical_axis_rules"), *mesh), *mesh);
}

graph::Initializer fan_in(std::int64_t inputs, double divisor) {
  return {graph::Initializer::Kind::fan_in, inputs, divisor};
}
graph::Initializer normal_fan_in(std::int64_t inputs, double divisor) {
  return {graph::Initializer::Kind::fan_in, inputs, divisor, /*has_tails=*/true};
}
// dense_init_scale scales the variance; as in MaxText, attention and the MLPs of dense layers ignore it.
graph::Initializer moe_fan_in(const Context& context, std::int64_t inputs) {
  return fan_in(inputs, 1 / std::sqrt(context.settings.real("dense_init_scale")));
}
graph::Initializer ones() { return {graph::Initializer::Kind::ones, 1, 1}; }
graph::Initializer zeros() { return {graph::Initializer::Kind::zeros, 1, 1}; }

Tensor constrain_residual(const std::string& name, Tensor x) {
  graph::ConstraintOf as{.labels = {labels::activation_batch, labels::activation_norm_length, labels::activation_embed}};
  as.unlisted = x.rank() - static_cast<int>(as.labels.size());  // of several streams the streams have the third label, as in MaxText
  as.labels.resize(static_cast<std::size_t>(x.rank()), labels::none);
  return constrain(name, x, std::move(as));
}

}  // namespace moesh::nn
