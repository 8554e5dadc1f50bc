// Shape suffixes: B rows, S length, M embedding, F width, A activations.
#include "nn/mlp.h"

#include <array>

#include <fmt/core.h>

#include "base/error.h"
#include "base/text.h"
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
  std::vector<std::string> words;
  for (const auto& [word, function] : kFunctions) words.emplace_back(word);
  refuse(fmt::format("mlp_activations holds '{}', one of {} was expected", name, join(words, ", ")),
         settings.origin("mlp_activations").where);
}

// The words of the functions, of which there is at least one.
const std::vector<std::string>& activations(const Context& context) {
  const std::vector<std::string>& names = context.model.mlp_activations;
  if (names.empty()) {
    refuse("mlp_activations is empty, a function for each projection was expected", context.settings.origin("mlp_activations").where,
           "mlp_activations=[silu, linear]");
  }
  return names;
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

Tensor first_activation(const Context& context, Tensor x) { return unary(activation(context.settings, activations(context).front()), x); }

namespace {

// The input of each activation function, by a matrix product of its own; in float32 if the settings ask for that.
template <typename FanIn>
std::vector<Tensor> project_apart(Builder& builder, const Context& context, Tensor x_BSM, std::int64_t width, bool has_bias, Role role,
                                  FanIn initial) {
  const std::size_t count = context.model.mlp_activations.size();
  std::vector<Tensor> made;
  for (std::size_t i = 0; i < count; ++i) {
    const std::string of = count == 1 ? "wi" : fmt::format("wi_{}", i);
    const graph::ParameterOf kernel{{labels::embed, labels::mlp}, initial(x_BSM.shape().back()), role};
    made.push_back(wide_activation(context, project(builder, context, of, x_BSM, width, has_bias, kernel)));
  }
  return made;
}

// The same by one matrix product for all. As in MaxText, activations_in_float32 does not apply here.
template <typename FanIn>
std::vector<Tensor> project_together(Builder& builder, const Context& context, Tensor x_BSM, std::int64_t width, bool has_bias, Role role,
                                     FanIn initial) {
  const graph::Scope scope(builder, "wi");
  const auto count = static_cast<std::int64_t>(context.model.mlp_activations.size());
  const std::int64_t emb = x_BSM.shape().back();
  const Tensor weight_MAF = parameter(builder, context, "kernel", {emb, count, width},
                                      {{labels::embed, labels::num_activations, labels::mlp}, initial(emb), role});
  Tensor all_BSAF = einsum("", "bsm,maf->bsaf", x_BSM, weight_MAF);
  if (has_bias) {
    all_BSAF = add_bias(all_BSAF, parameter(builder, context, "bias", {count, width},
                                            {{labels::num_activations, labels::mlp}, zeros(), Role::mlp_bias}));
  }
  const std::string none;
  all_BSAF = tag(constrain("x", all_BSAF, {labels::activation_batch, labels::activation_length, none, labels::activation_mlp}), "mlpwi");
  std::vector<Tensor> made;
  for (std::int64_t i = 0; i < count; ++i)
    made.push_back(reshape(slice(all_BSAF, 2, i, 1), {x_BSM.size(0), x_BSM.size(1), width}));
  return made;
}

// The whole MLP: the product of the activated projections, projected back to the embedding.
template <typename FanIn>
Tensor made_of(Builder& builder, const Context& context, const std::string& name, Tensor x_BSM, std::int64_t width,
               const MlpOptions& options, Role role, FanIn initial) {
  const graph::Scope scope(builder, name);
  const std::int64_t emb = x_BSM.shape().back();
  const std::vector<std::string>& names = activations(context);
  if (options.norms) x_BSM = layer_norm(builder, context, "mlp_layer_norm", x_BSM);
  const bool together = context.settings.boolean("fused_mlp");
  const std::vector<Tensor> all_BSF = together ? project_together(builder, context, x_BSM, width, options.bias, role, initial)
                                               : project_apart(builder, context, x_BSM, width, options.bias, role, initial);
  Tensor product_BSF;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const Tensor activated_BSF = unary(activation(context.settings, names[i]), all_BSF[i]);
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

Tensor shared_experts(Builder& builder, const Context& context, Tensor x_BSM, std::int64_t width, const std::string& name) {
  return made_of(builder, context, name, x_BSM, width, {}, Role::shared_expert_kernel,
                 [&](std::int64_t inputs) { return moe_fan_in(context, inputs); });
}

}  // namespace moesh::nn
