#include "train/step.h"

#include <algorithm>
#include <regex>

#include <fmt/core.h>

#include "base/bfloat16.h"
#include "base/error.h"
#include "graph/autodiff.h"
#include "graph/matrix_dims.h"
#include "graph/rewrite.h"
#include "graph/slots.h"
#include "models/model.h"
#include "train/muon.h"
#include "train/remat.h"

namespace moesh::train {
namespace {

using graph::Builder;
using graph::Op;
using graph::Tensor;

std::vector<Tensor> parameters_of(Builder& builder) {
  std::vector<Tensor> parameters;
  for (const graph::Node& node : builder.graph().nodes) {
    if (node.op == Op::parameter) parameters.push_back(builder.tensor(node.results.front()));
  }
  return parameters;
}

// With one microbatch the reported loss; with several what they add up to: the summed entropy and the balance loss.
Tensor differentiated(Builder& builder, const config::Settings& settings) {
  const graph::Graph& graph = builder.graph();
  const auto result = [&](const char* name) {
    return builder.tensor(graph.results[static_cast<std::size_t>(find_result(graph, name))]);
  };
  if (settings.integer("gradient_accumulation_steps") == 1) return result(models::results::loss);
  const Tensor entropy = result(models::results::entropy_sum);
  if (find_result(graph, models::results::balance_loss) < 0) return entropy;
  return graph::add(entropy, result(models::results::balance_loss));
}

// What the update of one parameter starts from, and what it gives.
struct Slot {
  Tensor parameter, gradient, mu, nu;
};
struct Updated {
  Tensor parameter;
  std::vector<Tensor> moments;
};

// MaxText's masks hold Python patterns that are searched for in a parameter's path.
bool is_masked(const std::string& path, const config::Settings& settings) {
  for (const std::string& pattern : settings.texts("adamw_mask")) {
    try {
      if (std::regex_search(path, std::regex(pattern))) return true;
    } catch (const std::regex_error&) {
      refuse(fmt::format("adamw_mask holds '{}', a regular expression was expected", pattern),
             settings.origin("adamw_mask").where, "adamw_mask=[bias, '.*norm.*']");
    }
  }
  return false;
}

// A factor takes the type of the array that it multiplies, as in JAX: beside bfloat16, 0.9 is 0.8984375.
double factor_for(Tensor array, double factor) {
  if (array.dtype() != DType::bfloat16) return factor;
  return static_cast<double>(static_cast<float>(bfloat16(static_cast<float>(factor))));
}

graph::AdamOf adam_of(const config::Settings& settings, const Slot& slot, bool nesterov) {
  const double beta1 = settings.real("adam_b1");
  const double beta2 = settings.real("adam_b2");
  return {beta1,
          beta2,
          factor_for(slot.mu, beta1),
          factor_for(slot.nu, beta2),
          settings.real("adam_eps"),
          settings.real("adam_eps_root"),
          factor_for(slot.parameter, settings.real("adam_weight_decay")),
          nesterov,
          settings.text("opt_type") == "adam_pax"};
}

Updated adam(Builder& builder, const Slot& slot, Tensor scalars, const graph::AdamOf& of) {
  const std::vector<Tensor> made =
      builder.add(Op::adam_update, "adam", {slot.parameter, slot.gradient, slot.mu, slot.nu, scalars}, of,
                  {{slot.parameter.shape(), slot.parameter.dtype()},
                   {slot.mu.shape(), slot.mu.dtype()},
                   {slot.nu.shape(), slot.nu.dtype()}});
  return {made[0], {made[1], made[2]}};
}

Tensor sgd(Builder& builder, Tensor parameter, Tensor direction, Tensor scalars, double weight_decay) {
  return builder.add_one(Op::sgd_update, "sgd", {parameter, direction, scalars}, graph::SgdOf{weight_decay},
                         parameter.shape(), parameter.dtype());
}

// The momentum, and its mixture with the gradient that Nesterov looks ahead to; the bias corrections are in the weights.
Updated muon(Builder& builder, const Slot& slot, Tensor scalars, Tensor mixing, const graph::MatrixDims& dims,
             const config::Settings& settings) {
  const double beta = settings.real("muon_beta");
  const Tensor kept = graph::scale(cast(slot.mu, DType::float32), factor_for(slot.mu, beta));
  const Tensor mu = graph::add(kept, graph::scale(slot.gradient, 1 - beta));
  const auto weight = [&](std::int64_t i) {
    return graph::broadcast(graph::reshape(graph::slice(mixing, 0, i, 1), {}), mu.shape(), {});
  };
  const Tensor ahead = graph::add(graph::multiply(mu, weight(0)), graph::multiply(slot.gradient, weight(1)));
  const Tensor direction = muon_direction(ahead, dims, settings);
  return {sgd(builder, slot.parameter, direction, scalars, settings.real("muon_weight_decay")), {cast(mu, slot.mu.dtype())}};
}

Updated update(Builder& builder, const Trained& trained, const Slot& slot, Tensor scalars, Tensor mixing,
               const config::Settings& settings) {
  const std::string& optimizer = settings.text("opt_type");
  if (optimizer == "sgd") return {sgd(builder, slot.parameter, slot.gradient, scalars, 0), {}};
  if (optimizer != "muon") {
    graph::AdamOf of = adam_of(settings, slot, false);
    if (is_masked(trained.path, settings)) of.weight_decay = 0;
    return adam(builder, slot, scalars, of);
  }
  const graph::MatrixDims dims = graph::matrix_dims(trained.role, trained.shape);
  return dims.is_matrix ? muon(builder, slot, scalars, mixing, dims, settings)
                        : adam(builder, slot, scalars, adam_of(settings, slot, true));
}

Tensor sum_of_squares(Builder& builder, const std::vector<Tensor>& tensors) {
  Tensor sum;
  for (const Tensor& tensor : tensors) {
    const Tensor own = builder.add_one(Op::sum_squares, "squares", {tensor}, {}, {}, DType::float32);
    sum = sum ? graph::add(sum, own) : own;
  }
  return sum;
}

Tensor scaled(Tensor x, Tensor factor) { return graph::multiply(x, graph::broadcast(factor, x.shape(), {})); }

// min(1, threshold / norm)
Tensor clip_factor(Tensor norm_squared, double threshold) {
  const Tensor ratio = graph::scale(graph::unary(graph::Unary::rsqrt, norm_squared), threshold);
  return graph::unary(graph::Unary::minimum, ratio, 1);
}

}  // namespace

graph::Graph gradient_graph(const graph::Graph& model, const config::Settings& settings) {
  Builder builder(graph::with_saved_values(graph::without_slot_masks(model), remat_of(settings)));
  const DType grad_dtype = parse_dtype(settings.text("grad_dtype")).value_or(DType::float32);
  for (const Tensor& gradient : graph::gradients(differentiated(builder, settings), parameters_of(builder))) {
    builder.mark_result(graph::cast(graph::cast(gradient, grad_dtype), DType::float32));
  }
  return graph::without_dead_nodes(builder.take());
}

std::vector<Trained> trained_parameters(const graph::Graph& model, const config::Settings& settings) {
  const std::string& optimizer = settings.text("opt_type");
  const DType mu_dtype = config::first_moment_dtype(settings);
  std::vector<Trained> all;
  for (const graph::Node& node : model.nodes) {
    if (node.op != Op::parameter) continue;
    const graph::Value& value = model.value(node.results.front());
    const graph::Role role = std::get<graph::ParameterOf>(node.attributes).role;
    const bool one = optimizer == "muon" && graph::matrix_dims(role, value.shape).is_matrix;
    all.push_back({node.path, role, value.shape, value.dtype, optimizer == "sgd" ? 0 : one ? 1 : 2, mu_dtype});
  }
  return all;
}

graph::Graph update_graph(const std::vector<Trained>& parameters, const config::Settings& settings) {
  using Kind = graph::InputOf::Kind;
  Builder builder;
  builder.set_phase(graph::Phase::update);
  const Tensor scalars = builder.input("scalars", {2}, DType::float32, {""}, Kind::number);
  const Tensor factor = builder.input("gradient_factor", {}, DType::float32, {}, Kind::number);
  const Tensor mixing = builder.input("muon_mixing", {2}, DType::float32, {""}, Kind::number);
  std::vector<Slot> slots;
  std::vector<Tensor> gradients;
  for (const Trained& trained : parameters) {
    const Labels none(trained.shape.size());
    Slot slot;
    slot.parameter = builder.input(trained.path, trained.shape, trained.dtype, none);
    slot.gradient = builder.input(trained.path + "'", trained.shape, DType::float32, none);
    if (trained.moments > 0) slot.mu = builder.input("mu/" + trained.path, trained.shape, trained.mu_dtype, none, Kind::moment);
    if (trained.moments > 1) slot.nu = builder.input("nu/" + trained.path, trained.shape, trained.dtype, none, Kind::moment);
    slot.gradient = scaled(slot.gradient, factor);
    gradients.push_back(slot.gradient);
    slots.push_back(slot);
  }
  const Tensor raw = sum_of_squares(builder, gradients);
  const double threshold = settings.real("gradient_clipping_threshold");
  if (threshold > 0) {
    const Tensor clip = clip_factor(raw, threshold);
    for (std::size_t i = 0; i < slots.size(); ++i) gradients[i] = slots[i].gradient = scaled(slots[i].gradient, clip);
  }
  const Tensor clipped = sum_of_squares(builder, gradients);
  std::vector<Updated> made;
  std::vector<Tensor> updated;
  for (std::size_t i = 0; i < slots.size(); ++i) {
    made.push_back(update(builder, parameters[i], slots[i], scalars, mixing, settings));
    updated.push_back(made.back().parameter);
  }
  for (const Tensor& norm : {raw, clipped, sum_of_squares(builder, updated)}) builder.mark_result(norm);
  for (const Updated& u : made) {
    builder.mark_result(u.parameter);
    for (const Tensor& moment : u.moments) builder.mark_result(moment);
  }
  return builder.take();
}

}  // namespace moesh::train
