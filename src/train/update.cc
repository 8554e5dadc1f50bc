#include "train/update.h"

#include <algorithm>

#include "base/bfloat16.h"
#include "config/model_shape.h"
#include "config/optimizer.h"
#include "config/path_mask.h"
#include "graph/matrix_dims.h"
#include "sharding/labels.h"
#include "train/muon.h"

namespace moesh::train {
namespace {

using graph::Builder;
using graph::Op;
using graph::Tensor;
using graph::Unary;
using Kind = graph::InputOf::Kind;

// Inputs and results of the update of one parameter; moments that are not kept are absent.
struct Slot {
  Tensor parameter, gradient, mu, nu;
};
struct Updated {
  Tensor parameter, mu, nu;
};

// The vectors of numbers that the update ops take as operands.
struct UpdateNumbers {
  Tensor of_gradients;
  Tensor of_directions;  // with a factor of 1, for Muon's directions, which are no gradients
};

// A factor takes the type of the array that it multiplies, as in JAX: with a bfloat16 array, 0.9 is 0.8984375.
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
          config::optimizer_of(settings) == config::Optimizer::adam_pax};
}

std::pair<Shape, DType> like(Tensor tensor) { return {tensor.shape(), tensor.dtype()}; }

Updated adam(const Slot& slot, Tensor numbers, const graph::AdamOf& of) {
  const std::vector<Tensor> made =
      slot.parameter.builder->add(Op::adam_update, "adam", {slot.parameter, slot.gradient, slot.mu, slot.nu, numbers}, of,
                                  {like(slot.parameter), like(slot.mu), like(slot.nu)});
  return {made[0], made[1], made[2]};
}

Tensor sgd(Tensor parameter, Tensor direction, Tensor numbers, double weight_decay) {
  return parameter.builder->add_one(Op::sgd_update, "sgd", {parameter, direction, numbers}, graph::SgdOf{weight_decay},
                                    parameter.shape(), parameter.dtype());
}

Updated muon(const Slot& slot, const UpdateNumbers& numbers, const graph::MatrixDims& dims, const config::Settings& settings) {
  const double beta = settings.real("muon_beta");
  const std::vector<Tensor> momentum =
      slot.mu.builder->add(Op::momentum_update, "momentum", {slot.gradient, slot.mu, numbers.of_gradients},
                           graph::MomentumOf{beta, factor_for(slot.mu, beta)}, {like(slot.mu), like(slot.gradient)});
  const Tensor direction = muon_direction(momentum[1], dims, settings);
  return {sgd(slot.parameter, direction, numbers.of_directions, settings.real("muon_weight_decay")), momentum[0], {}};
}

// Updates a few layers at a time, so that no intermediate value is larger than those layers. The stacked dim [L] becomes [L/c, c],
// and a loop runs over the first of the two.
Updated muon_by_layers(const Slot& slot, const UpdateNumbers& numbers, const graph::MatrixDims& dims, const Trained& trained,
                       std::int64_t at_a_time, const config::Settings& settings) {
  Builder& builder = *slot.parameter.builder;
  const int dim = trained.layers_dim;
  const auto at = static_cast<std::size_t>(dim);
  Shape cut = trained.shape;
  cut[at] = at_a_time;
  const std::int64_t times = trained.shape[at] / at_a_time;
  cut.insert(cut.begin() + dim, times);
  const Tensor parameter = graph::reshape(slot.parameter, cut);
  const Tensor gradient = graph::reshape(slot.gradient, cut);
  const Tensor mu = graph::reshape(slot.mu, cut);
  const auto build = [&](Builder& inner, const std::vector<Tensor>&, const std::vector<Tensor>& whole) {
    const auto slice = [&](Tensor tensor) { return inner.slice_of(tensor, 1, dim); };
    const Updated made = muon({slice(parameter), slice(gradient), slice(mu), {}}, {whole[0], whole[1]}, dims, settings);
    return std::vector<Tensor>{made.parameter, made.mu};
  };
  const std::vector<Tensor> made =
      graph::repeat(builder, {"layers", {times}, {""}, 0}, {}, {numbers.of_gradients, numbers.of_directions}, {build, dim});
  return {graph::reshape(made[0], trained.shape), graph::reshape(made[1], trained.shape), {}};
}

Updated muon(const Slot& slot, const UpdateNumbers& numbers, const graph::MatrixDims& dims, const Trained& trained,
             std::int64_t devices, const config::Settings& settings) {
  if (trained.layers_dim < 0) return muon(slot, numbers, dims, settings);
  const std::int64_t layers = trained.shape[static_cast<std::size_t>(trained.layers_dim)];
  std::int64_t matrices = elements(trained.shape) / layers;
  for (const std::vector<int>* list : {&dims.in, &dims.out}) {
    for (const int dim : *list) matrices /= trained.shape[static_cast<std::size_t>(dim)];
  }
  const std::int64_t at_a_time = layers_at_a_time(layers, matrices, devices);
  return at_a_time == layers ? muon(slot, numbers, dims, settings)
                             : muon_by_layers(slot, numbers, dims, trained, at_a_time, settings);
}

Updated update(const Trained& trained, const Slot& slot, const UpdateNumbers& numbers, std::int64_t devices,
               const config::Settings& settings, const config::PathMask& undecayed) {
  if (trained.is_frozen) return {slot.parameter, {}, {}};
  const config::Optimizer optimizer = config::optimizer_of(settings);
  if (optimizer == config::Optimizer::sgd) return {sgd(slot.parameter, slot.gradient, numbers.of_gradients, 0), {}, {}};
  if (optimizer != config::Optimizer::muon) {
    graph::AdamOf of = adam_of(settings, slot, false);
    if (undecayed.matches(trained.path)) of.weight_decay = 0;
    return adam(slot, numbers.of_gradients, of);
  }
  const graph::MatrixDims dims = graph::matrix_dims(trained.role, trained.shape);
  return dims.is_matrix ? muon(slot, numbers, dims, trained, devices, settings)
                        : adam(slot, numbers.of_gradients, adam_of(settings, slot, true));
}

// Whether it is the gradient of a parameter on which no loss depends.
bool is_zero(Tensor gradient) {
  const auto* fill = std::get_if<graph::FillOf>(&gradient.builder->graph().producer_of(gradient.id).attributes);
  return fill != nullptr && fill->value == 0;
}

// Large tensors come first: they are sharded, so what is added up stays a partial sum until a small one comes that is not.
Tensor sum_of_squares(const std::vector<Tensor>& tensors) {
  std::vector<std::pair<std::int64_t, Tensor>> squares;
  for (const Tensor& tensor : tensors) {
    if (is_zero(tensor)) continue;
    squares.emplace_back(elements(tensor.shape()), tensor.builder->add_one(Op::sum_squares, "squares", {tensor}, {}, {}, DType::float32));
  }
  std::stable_sort(squares.begin(), squares.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  Tensor sum;
  for (const auto& [size, own] : squares) sum = sum ? graph::add(sum, own) : own;
  return sum ? sum : graph::fill(*tensors.front().builder, 0, {}, DType::float32);
}

// What is computed from the gradients before anything is updated.
struct Norms {
  Tensor raw, clipped;
  Tensor factor;  // multiplies each gradient: the given factor and that of clipping
};

Norms norms_of(Builder& builder, const UpdateOf& of, double threshold) {
  builder.set_path("gradients");
  Tensor squares = sum_of_squares(of.gradients);
  Tensor factor = of.gradient_factor ? of.gradient_factor : graph::fill(builder, 1, {}, DType::float32);
  if (of.gradient_factor) squares = graph::multiply(graph::multiply(squares, factor), factor);
  const Tensor raw = graph::unary(Unary::sqrt, squares);
  if (threshold <= 0) return {raw, raw, factor};
  // min(1, threshold / norm)
  const Tensor clip = graph::unary(Unary::minimum, graph::scale(graph::unary(Unary::rsqrt, squares), threshold), 1);
  return {raw, graph::multiply(raw, clip), graph::multiply(factor, clip)};
}

// In the order of graph::UpdateNumber.
Tensor vector_of(const std::vector<Tensor>& scalars) {
  std::vector<Tensor> parts;
  for (const Tensor& scalar : scalars) parts.push_back(graph::reshape(scalar, {1}));
  return graph::concat(parts, 0);
}

Tensor scalar_input(Builder& builder, const char* name) { return builder.input(name, {}, DType::float32, {}, Kind::number); }

// The next layers of what layers make, [microbatches, layers, width]: parameters of one kind come in the order of their layers, or in that
// of their places in a cycle of stacked layers.
class OfLayers {
 public:
  explicit OfLayers(Tensor all, std::int64_t first = 0, std::int64_t cycle = 1) : all_(all), first_(first), cycle_(cycle) {}

  explicit operator bool() const { return static_cast<bool>(all_); }
  std::int64_t width() const { return all_.size(2); }
  Tensor next(std::int64_t layers) {
    if (cycle_ > 1) return next_of_cycles(layers);
    first_ += layers;
    return graph::slice(all_, 1, first_ - layers, layers);
  }

 private:
  Tensor next_of_cycles(std::int64_t cycles) {
    const Shape shape{all_.size(0), cycles, cycle_, all_.size(2)};
    const Tensor cut = graph::reshape(graph::slice(all_, 1, first_, cycles * cycle_), shape);
    return graph::reshape(graph::slice(cut, 2, place_++, 1), {shape[0], cycles, shape[3]});
  }

  Tensor all_;
  std::int64_t first_, cycle_;
  std::int64_t place_ = 0;
};

// Moves routers' biases after the optimizer's update.
class Balance {
 public:
  // Layers whose experts a table gives have a load and no bias.
  Balance(Tensor load, Tensor numbers, const config::ModelShape& shape, double rate)
      : loads_(load, shape.given_layers, shape.block == config::Block::deepseek4 && shape.scan ? 2 : 1), numbers_(numbers), rate_(rate) {}

  Tensor update(const Trained& trained, Tensor bias) {
    if (!loads_ || rate_ <= 0 || trained.role != graph::Role::router_bias) return bias;
    const Tensor load = loads_.next(elements(trained.shape) / (loads_.width() - 1));
    return bias.builder->add_one(Op::balance_update, "balance", {bias, load, numbers_},
                                 graph::BalanceOf{rate_, trained.layers_dim == 0 ? 1 : 0}, bias.shape(), bias.dtype());
  }

 private:
  OfLayers loads_;
  Tensor numbers_;
  double rate_;
};

// QK-Clip: after the optimizer's update, shrinks the weights of heads whose scores were above use_qk_clip's threshold. As in MaxText, also
// those that the optimizer leaves out.
class Clip {
 public:
  Clip(Tensor highest, Tensor numbers, const config::Settings& settings)
      : of_queries_(highest),
        of_keys_(highest),
        numbers_(numbers),
        threshold_(settings.real("qk_clip_threshold")),
        shared_(settings.integer("qk_nope_head_dim")) {}

  // A weight [in, heads, dim], or [in, layers, heads, dim], that makes queries, or the parts of keys that heads have apart and values.
  Tensor update(const Trained& trained, Tensor weight) {
    if (!of_keys_ || trained.role != graph::Role::attention_kernel) return weight;
    const bool makes_keys = trained.labels.front() == labels::kv_lora;
    OfLayers& of = makes_keys ? of_keys_ : of_queries_;
    graph::ClipOf clip{threshold_, {1}, shared_, !makes_keys};
    Shape shape{of.width()};
    if (trained.layers_dim >= 0) {
      clip.dims = {trained.layers_dim, 2};
      shape.insert(shape.begin(), trained.shape[static_cast<std::size_t>(trained.layers_dim)]);
    }
    const std::int64_t layers = elements(shape) / of.width();
    const Tensor each_pass = of.next(layers);
    Builder& builder = *weight.builder;
    const Tensor highest = builder.add_one(Op::highest, "max_logits", {each_pass}, {}, {1, layers, of.width()}, DType::float32);
    return builder.add_one(Op::clip_update, "qk_clip", {weight, graph::reshape(highest, std::move(shape)), numbers_}, clip, weight.shape(),
                           weight.dtype());
  }

 private:
  OfLayers of_queries_, of_keys_;
  Tensor numbers_;
  double threshold_;
  std::int64_t shared_;
};

// Whether parameters are protected from updates that are not finite.
bool guards_parameters(const config::Settings& settings) {
  return settings.text("non_finite_policy") == "skip_step" || settings.boolean("abort_on_nan_loss") ||
         settings.boolean("abort_on_inf_loss");
}

// 1 if the value is not above the limit, and 0 if it is above it or no number.
Tensor within(Tensor value, Tensor limit) {
  return graph::unary(Unary::finite, graph::unary(Unary::sqrt, graph::binary(graph::Binary::subtract, limit, value)));
}

std::vector<Slot> slots_of(Builder& builder, const std::vector<Trained>& parameters, const UpdateOf& of) {
  std::vector<Slot> slots;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const Trained& trained = parameters[i];
    Slot slot{of.parameters[i], of.gradients[i], {}, {}};
    const auto moment = [&](const std::string& name, DType dtype) {
      return builder.input(name, trained.shape, dtype, trained.labels, Kind::moment);
    };
    if (trained.moments > 0) slot.mu = moment(trained.mu(), trained.mu_dtype);
    if (trained.moments > 1) slot.nu = moment(trained.nu(), trained.dtype);
    slots.push_back(slot);
  }
  return slots;
}

}  // namespace

void add_update(Builder& builder, const std::vector<Trained>& parameters, const UpdateOf& of, const config::Settings& settings,
                std::int64_t devices) {
  builder.set_path("");
  builder.set_phase(graph::Phase::update);
  const Tensor rate = scalar_input(builder, update_inputs::learning_rate);
  const Tensor step = scalar_input(builder, update_inputs::step);
  const bool watches_spikes = settings.boolean("skip_step_on_spikes");
  const Tensor loss_limit = watches_spikes ? scalar_input(builder, update_inputs::loss_limit) : Tensor{};
  const Tensor norm_limit = watches_spikes ? scalar_input(builder, update_inputs::grad_norm_limit) : Tensor{};
  const std::vector<Slot> slots = slots_of(builder, parameters, of);
  const Norms norms = norms_of(builder, of, settings.real("gradient_clipping_threshold"));
  const Tensor one = graph::fill(builder, 1, {}, DType::float32);
  const Tensor applied = !guards_parameters(settings) ? one
                                                      : graph::multiply(graph::unary(Unary::finite, of.loss),
                                                                        graph::unary(Unary::finite, norms.raw));
  // As in MaxText, the biases of routers move, and weights are clipped, in a step with a spike too.
  Tensor optimized = applied;
  if (watches_spikes) {
    const Tensor is_usual = graph::multiply(within(of.loss, loss_limit), within(norms.clipped, norm_limit));
    optimized = graph::multiply(applied, is_usual);
  }
  const UpdateNumbers numbers{vector_of({rate, step, norms.factor, optimized}), vector_of({rate, step, one, optimized})};
  const Tensor numbers_beside = watches_spikes ? vector_of({rate, step, one, applied}) : numbers.of_gradients;
  Balance balance(of.expert_load, numbers_beside, config::model_shape(settings), settings.real("routed_bias_update_rate"));
  Clip clip(of.highest, numbers_beside, settings);
  const config::PathMask undecayed(settings, "adamw_mask");
  std::vector<Tensor> counted;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const Trained& trained = parameters[i];
    builder.set_path(trained.path);
    const Updated made = update(trained, slots[i], numbers, devices, settings, undecayed);
    const Tensor updated = clip.update(trained, balance.update(trained, made.parameter));
    if (!trained.is_beside) counted.push_back(updated);
    builder.mark_result(updated, trained.path);
    if (made.mu) builder.mark_result(made.mu, trained.mu());
    if (made.nu) builder.mark_result(made.nu, trained.nu());
  }
  builder.set_path("parameters");
  builder.mark_result(norms.raw, update_results::raw_grad_norm);
  builder.mark_result(norms.clipped, update_results::grad_norm);
  builder.mark_result(graph::unary(Unary::sqrt, sum_of_squares(counted)), update_results::param_norm);
  builder.mark_result(optimized, update_results::applied);
}

}  // namespace moesh::train
