// Shape suffixes: B rows, S length, M embedding, F width.
#include "nn/mlp.h"

#include <array>

#include <fmt/core.h>

#include "base/error.h"
#include "nn/norm.h"
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

Tensor project(Builder& builder, const Context& context, const std::string& name, Tensor x, std::int64_t out, bool has_bias,
               graph::ParameterOf of) {
  const graph::Scope scope(builder, name);
  const std::string label = of.labels.back();
  const Tensor weight = parameter(builder, context, "kernel", {x.shape().back(), out}, std::move(of));
  const Tensor made = tag(einsum("", "bsm,mf->bsf", x, weight), "mlp" + name);
  if (!has_bias) return made;
  return add_bias(made, parameter(builder, context, "bias", {out}, {{label}, zeros(), Role::mlp_bias}));
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

// The product of the projections, each activated.
template <typename FanIn>
Tensor made_of(Builder& builder, const Context& context, const std::string& name, Tensor x_BSM, std::int64_t width,
               const MlpOptions& options, Role role, FanIn initial) {
  const graph::Scope scope(builder, name);
  const std::int64_t emb = x_BSM.shape().back();
  const std::vector<std::string>& names = context.model.mlp_activations;
  if (names.empty()) {
    refuse("mlp_activations is empty, a function for each projection was expected", context.settings.origin("mlp_activations").where,
           "mlp_activations=[silu, linear]");
  }
  if (options.norms) x_BSM = layer_norm(builder, context, "mlp_layer_norm", x_BSM);
  Tensor product_BSF;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const std::string of = names.size() == 1 ? "wi" : fmt::format("wi_{}", i);
    const Tensor a_BSF = project(builder, context, of, x_BSM, width, options.bias, {{labels::embed, labels::mlp}, initial(emb), role});
    const Tensor activated_BSF = unary(activation(context.settings, names[i]), wide_activation(context, a_BSF));
    product_BSF = product_BSF ? multiply(product_BSF, activated_BSF) : activated_BSF;
  }
  const Tensor hidden_BSF = constrain("hidden", cast(product_BSF, context.model.compute_dtype),
                                      {labels::activation_batch, labels::activation_length, labels::activation_mlp});
  return project(builder, context, "wo", hidden_BSF, emb, options.bias, {{labels::mlp, labels::embed}, initial(width), role});
}

}  // namespace

Tensor mlp(Builder& builder, const Context& context, const std::string& name, Tensor x_BSM, std::int64_t width, const MlpOptions& options) {
  return made_of(builder, context, name, x_BSM, width, options, Role::mlp_kernel,
                 [](std::int64_t inputs) { return fan_in(inputs); });
}

Tensor shared_experts(Builder& builder, const Context& context, Tensor x_BSM, std::int64_t width) {
  return made_of(builder, context, "shared_experts", x_BSM, width, {}, Role::shared_expert_kernel,
                 [&](std::int64_t inputs) { return moe_fan_in(context, inputs); });
}

}  // namespace moesh::nn
