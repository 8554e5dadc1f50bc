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
               Labels labels) {
  const graph::Scope scope(builder, name);
  const std::int64_t in = x.shape().back();
  const Tensor weight = kernel(builder, context, "kernel", {in, out}, std::move(labels), fan_in(in));
  return tag(einsum("", "bsm,mf->bsf", x, weight), "mlp" + name);
}

}  // namespace

Tensor gate(const Context& context, Tensor a, Tensor b) {
  const std::vector<std::string>& names = context.model.mlp_activations;
  if (names.size() != 2) {
    refuse(fmt::format("mlp_activations has {} functions, 2 were expected (of the gate and of the other half)",
                       names.size()),
           context.settings.origin("mlp_activations").where, "mlp_activations=[silu, linear]");
  }
  return multiply(unary(activation(context.settings, names[0]), a), unary(activation(context.settings, names[1]), b));
}

Tensor mlp(Builder& builder, const Context& context, const std::string& name, Tensor x_BSM, std::int64_t width) {
  const graph::Scope scope(builder, name);
  const Tensor a_BSF = project(builder, context, "wi_0", x_BSM, width, {labels::embed, labels::mlp});
  const Tensor b_BSF = project(builder, context, "wi_1", x_BSM, width, {labels::embed, labels::mlp});
  const Tensor hidden_BSF =
      constrain("hidden", gate(context, a_BSF, b_BSF),
                {labels::activation_batch, labels::activation_length, labels::activation_mlp});
  return project(builder, context, "wo", hidden_BSF, x_BSM.shape().back(), {labels::mlp, labels::embed});
}

}  // namespace moesh::nn
