// Shape suffixes: B rows, S length, M embedding, F width.
#include "nn/mlp.h"

#include <array>

#include <fmt/core.h>

#include "base/error.h"
#include "sharding/labels.h"

namespace moesh::nn {
namespace {

graph::Unary activation(const config::Settings& settings, const std::string& name) {
  constexpr std::array<std::pair<std::string_view, graph::Unary>, 6> kFunctions{{{"silu", graph::Unary::silu},
                                                                                 {"swish", graph::Unary::silu},
                                                                                 {"sigmoid", graph::Unary::sigmoid},
                                                                                 {"gelu", graph::Unary::gelu},
                                                                                 {"relu", graph::Unary::relu},
                                                                                 {"linear", graph::Unary::identity}}};
  for (const auto& [word, function] : kFunctions) {
    if (word == name) return function;
  }
  refuse(fmt::format("mlp_activations holds '{}', one of silu, sigmoid, gelu, relu, linear was expected", name),
         settings.origin("mlp_activations").where);
}

Tensor project(Builder& builder, const Context& context, const std::string& name, Tensor x, std::int64_t out,
               graph::ParameterOf of) {
  const graph::Scope scope(builder, name);
  const Tensor weight = parameter(builder, context, "kernel", {x.shape().back(), out}, std::move(of));
  return tag(einsum("", "bsm,mf->bsf", x, weight), "mlp" + name);
}

}  // namespace

Tensor wide_activation(const Context& context, Tensor x) {
  return context.model.float32_activations ? cast(x, DType::float32) : x;
}

Tensor gate(const Context& context, Tensor a, Tensor b) {
  const std::vector<std::string>& names = context.model.mlp_activations;
  if (names.size() != 2) {
    refuse(fmt::format("mlp_activations has {} functions, 2 were expected (of the gate and of the other half)",
                       names.size()),
           context.settings.origin("mlp_activations").where, "mlp_activations=[silu, linear]");
  }
  return multiply(unary(activation(context.settings, names[0]), a), unary(activation(context.settings, names[1]), b));
}

namespace {

template <typename FanIn>
Tensor gated(Builder& builder, const Context& context, const std::string& name, Tensor x_BSM, std::int64_t width,
             Role role, FanIn initial) {
  const graph::Scope scope(builder, name);
  const std::int64_t emb = x_BSM.shape().back();
  const Tensor a_BSF = project(builder, context, "wi_0", x_BSM, width, {{labels::embed, labels::mlp}, initial(emb), role});
  const Tensor b_BSF = project(builder, context, "wi_1", x_BSM, width, {{labels::embed, labels::mlp}, initial(emb), role});
  const Tensor gated_BSF = cast(gate(context, wide_activation(context, a_BSF), wide_activation(context, b_BSF)), context.model.compute_dtype);
  const Tensor hidden_BSF =
      constrain("hidden", gated_BSF, {labels::activation_batch, labels::activation_length, labels::activation_mlp});
  return project(builder, context, "wo", hidden_BSF, emb, {{labels::mlp, labels::embed}, initial(width), role});
}

}  // namespace

Tensor mlp(Builder& builder, const Context& context, const std::string& name, Tensor x_BSM, std::int64_t width) {
  return gated(builder, context, name, x_BSM, width, Role::mlp_kernel,
               [](std::int64_t inputs) { return fan_in(inputs); });
}

Tensor shared_experts(Builder& builder, const Context& context, Tensor x_BSM, std::int64_t width) {
  return gated(builder, context, "shared_experts", x_BSM, width, Role::shared_expert_kernel,
               [&](std::int64_t inputs) { return moe_fan_in(context, inputs); });
}

}  // namespace moesh::nn
