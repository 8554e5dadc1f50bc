#include "train/trainer.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include <fmt/core.h>

#include "base/error.h"
#include "base/progress.h"
#include "models/draws.h"
#include "models/model.h"
#include "run/cpu/element.h"
#include "run/plain/scalar.h"
#include "train/context_order.h"
#include "train/initialize.h"

namespace moesh::train {
namespace {

using run::Array;
using run::Placed;
using sharding::Spec;

Array zeros(run::Pool& pool, const Shape& shape, DType dtype) {
  Array made = pool.allocate(shape, dtype);
  std::memset(made.view.data, 0, static_cast<std::size_t>(made.bytes()));
  return made;
}

Array floats(run::Pool& pool, const std::vector<double>& values, Shape shape) {
  Array made = pool.allocate(std::move(shape), DType::float32);
  for (std::size_t i = 0; i < values.size(); ++i) made.as<float>()[i] = static_cast<float>(values[i]);
  return made;
}

Array integers(run::Pool& pool, const std::vector<std::int32_t>& values, Shape shape) {
  Array made = pool.allocate(std::move(shape), DType::int32);
  std::copy(values.begin(), values.end(), made.as<std::int32_t>());
  return made;
}

double scalar(const Placed& value) { return run::plain::load_scalar(value.shards.front().view); }

// A value that all devices have.
Placed everywhere(Array value) {
  const Shape shape = value.view.shape;
  return {shape, sharding::whole_spec(shape.size()), {std::move(value)}};
}

// Rows index, index + count, ...: the microbatch that the reference takes.
Array microbatch(const Array& rows, std::int64_t index, std::int64_t count, run::Pool& pool) {
  if (count == 1) return rows;
  const std::int64_t taken = rows.view.size(0) / count;
  const std::int64_t row_bytes = rows.bytes() / rows.view.size(0);
  Shape shape = rows.view.shape;
  shape[0] = taken;
  Array made = pool.allocate(std::move(shape), rows.view.dtype);
  for (std::int64_t i = 0; i < taken; ++i) {
    std::memcpy(made.raw() + i * row_bytes, rows.raw() + (index + i * count) * row_bytes,
                static_cast<std::size_t>(row_bytes));
  }
  return made;
}

// What the graph would read beyond its end, or as numbers of another type, is refused.
Array checked_feed(Array rows, const graph::Value& expected, const std::string& name) {
  if (rows.view.shape == expected.shape && rows.view.dtype == expected.dtype) return rows;
  refuse(fmt::format("{} {} in a pass, the model takes {} {}", name_of(rows.view.dtype), to_string(rows.view.shape),
                     name_of(expected.dtype), to_string(expected.shape)),
         name, "the batch and the sizes that are set belong together");
}

// The positions of every row, [B, S, ...], in another order: `order` names the one that comes to each place.
Array reordered(const Array& rows, const std::vector<std::int64_t>& order, run::Pool& pool) {
  Array made = pool.allocate(rows.view.shape, rows.view.dtype);
  const auto length = static_cast<std::int64_t>(order.size());
  const std::int64_t bytes = rows.bytes() / rows.view.size(0) / length;
  for (std::int64_t row = 0; row < rows.view.size(0); ++row) {
    for (std::int64_t place = 0; place < length; ++place) {
      std::memcpy(made.raw() + (row * length + place) * bytes,
                  rows.raw() + (row * length + order[static_cast<std::size_t>(place)]) * bytes,
                  static_cast<std::size_t>(bytes));
    }
  }
  return made;
}

bool is_finite(const Array& array) {
  if (!array || !is_floating(array.view.dtype)) return true;
  bool all = true;
  run::cpu::for_floating(array.view.dtype, [&]<typename T>() {
    const T* values = array.as<T>();
    all = std::all_of(values, values + array.view.count(), [](T value) { return std::isfinite(run::cpu::load(value)); });
  });
  return all;
}

bool is_finite(const Placed& value) {
  return std::all_of(value.shards.begin(), value.shards.end(), [](const Array& shard) { return is_finite(shard); });
}

void add_into(const Placed& sum, const Placed& other) {
  for (std::size_t s = 0; s < sum.shards.size(); ++s) {
    auto* a = sum.shards[s].as<float>();
    const auto* b = other.shards[s].as<float>();
    for (std::int64_t i = 0; i < sum.shards[s].view.count(); ++i) a[i] += b[i];
  }
}

// Muon's momentum and gradient as Nesterov mixes them, each with its bias correction.
std::vector<double> muon_mixing(double beta, std::int64_t step) {
  const auto correction = [&](std::int64_t t) { return 1 - std::pow(beta, static_cast<double>(t)); };
  return {beta / correction(step + 1), (1 - beta) / correction(step)};
}

// Adds what a pass counted, [layers, E + 1].
void add_load(const Array& counted, ExpertLoad& sum) {
  const std::int64_t layers = counted.view.size(0);
  sum.experts = counted.view.size(1) - 1;
  sum.tokens.resize(static_cast<std::size_t>(layers * sum.experts));
  sum.dropped.resize(static_cast<std::size_t>(layers));
  for (std::int64_t layer = 0; layer < layers; ++layer) {
    const float* row = counted.as<float>() + layer * (sum.experts + 1);
    for (std::int64_t e = 0; e < sum.experts; ++e) sum.tokens[static_cast<std::size_t>(layer * sum.experts + e)] += row[e];
    sum.dropped[static_cast<std::size_t>(layer)] += row[sum.experts];
  }
}

}  // namespace

double ExpertLoad::max_over_mean(std::int64_t layer) const {
  const auto first = tokens.begin() + layer * experts;
  const double sum = std::accumulate(first, first + experts, 0.0);
  return sum == 0 ? 0 : *std::max_element(first, first + experts) * static_cast<double>(experts) / sum;
}

Trainer::Trainer(StepPrograms programs, const config::Settings& settings, run::Workers& workers)
    : settings_(settings),
      workers_(workers),
      pool_(run::Pool::create()),
      executor_(workers, pool_, programs.mesh),
      programs_(std::move(programs)),
      order_(context_order(settings, programs_.mesh)),
      guards_parameters_(settings.text("non_finite_policy") == "skip_step" || settings.boolean("abort_on_nan_loss") ||
                         settings.boolean("abort_on_inf_loss")) {
  for (const graph::Node& node : programs_.update.nodes) {
    if (graph::is_root(node)) specs_[node.path] = programs_.update.value(node.results.front()).spec;
  }
  for (const Trained& trained : parameters()) set_parameter(trained.path, zeros(*pool_, trained.shape, trained.dtype));
}

Placed Trainer::place(const std::string& path, const Array& value) {
  return run::place(value, specs_.at(path), executor_.mesh(), *pool_);
}

void Trainer::set_parameter(const std::string& path, Array value) {
  for (const Trained& trained : programs_.parameters) {
    if (trained.path != path) continue;
    if (trained.shape != value.view.shape) {
      refuse(fmt::format("shape {}, {} was expected", to_string(value.view.shape), to_string(trained.shape)), path);
    }
    if (trained.dtype != value.view.dtype) {
      refuse(fmt::format("values of {}, {} was expected", name_of(value.view.dtype), name_of(trained.dtype)), path);
    }
    State& state = state_[path];
    state.parameter = place(path, value);
    state.moments.clear();
    const auto add_moment = [&](const char* name, DType dtype) {
      state.moments.push_back(place(name + path, zeros(*pool_, trained.shape, dtype)));
    };
    if (trained.moments > 0) add_moment("mu/", trained.mu_dtype);
    if (trained.moments > 1) add_moment("nu/", trained.dtype);
    return;
  }
  refuse("the model has no such parameter", path);
}

// The layers' keys in a step, [layers, 2].
Placed Trainer::draw_keys(const graph::Value& value, std::int64_t step) {
  const std::int64_t seed = settings_.integer("init_weights_seed");
  return run::place(integers(*pool_, models::draw_keys(seed, step, value.shape[0]), value.shape), value.spec, executor_.mesh(), *pool_);
}

Array Trainer::rows_of(const Batch& batch, const std::string& name) {
  if (name != models::inputs::numbers) return batch.at(name);
  const Shape& shape = batch.at(models::inputs::tokens).view.shape;
  return integers(*pool_, models::token_numbers(shape[0], shape[1]), shape);
}

std::vector<Placed> Trainer::run_microbatch(const Batch& batch, const Microbatch& of, const run::Observers& observers) {
  std::vector<Placed> feeds;
  for (const graph::Node& node : programs_.gradients.nodes) {
    if (node.op == graph::Op::input) {
      const graph::Value& value = programs_.gradients.value(node.results.front());
      if (node.path == models::inputs::draw_keys) {
        feeds.push_back(draw_keys(value, of.step));
        continue;
      }
      const Array rows = checked_feed(microbatch(rows_of(batch, node.path), of.index, of.count, *pool_), value, node.path);
      const Array ordered = order_.empty() ? rows : reordered(rows, order_, *pool_);
      feeds.push_back(run::place(ordered, value.spec, executor_.mesh(), *pool_));
    }
    if (node.op == graph::Op::parameter) feeds.push_back(state_.at(node.path).parameter);
  }
  return executor_.run(programs_.gradients, std::move(feeds), observers);
}

Array Trainer::logits(const Gradients& gradients) const {
  const Array made = whole(gradients.logits);
  if (order_.empty()) return made;
  std::vector<std::int64_t> back(order_.size());
  for (std::size_t place = 0; place < back.size(); ++place) {
    back[static_cast<std::size_t>(order_[place])] = static_cast<std::int64_t>(place);
  }
  return reordered(made, back, *pool_);
}

Trainer::Gradients Trainer::gradients(const Batch& batch) {
  const std::int64_t count = settings_.integer("gradient_accumulation_steps");
  Gradients sum;
  double entropy = 0;
  for (std::int64_t index = 0; index < count; ++index) {
    std::vector<Placed> made = run_microbatch(batch, {steps_done_, index, count}, {nullptr, &sum.metrics.load.sent});
    const auto result = [&](const char* name) {
      const int at = find_result(programs_.gradients, name);
      return at < 0 ? Placed{} : made[static_cast<std::size_t>(at)];
    };
    namespace results = models::results;
    entropy += scalar(result(results::entropy_sum));
    sum.metrics.total_weights += scalar(result(results::positions));
    if (const Placed balance = result(results::balance_loss)) sum.metrics.balance_loss += scalar(balance);
    sum.logits = result(results::logits);
    if (const Placed load = result(results::expert_load)) {
      sum.loads.push_back(whole(load));
      add_load(sum.loads.back(), sum.metrics.load);
    }
    made.erase(made.begin(), made.begin() + static_cast<std::ptrdiff_t>(programs_.model_results));
    if (index == 0) {
      sum.gradients = std::move(made);
      if (count > 1) {
        for (Placed& gradient : sum.gradients) {
          for (Array& shard : gradient.shards) shard = copy_of(shard, *pool_);
        }
      }
    } else {
      for (std::size_t i = 0; i < made.size(); ++i) add_into(sum.gradients[i], made[i]);
    }
  }
  // The reported loss adds the mean of the microbatches' balance losses, the metric is their sum.
  sum.metrics.lm_loss = entropy / (sum.metrics.total_weights + 1e-8);
  sum.metrics.loss = sum.metrics.lm_loss + sum.metrics.balance_loss / static_cast<double>(count);
  return sum;
}

std::string Trainer::first_not_finite(const Batch& batch, std::int64_t step) {
  std::string found;
  for (const Trained& trained : programs_.parameters) {
    if (found.empty() && !is_finite(state_.at(trained.path).parameter)) found = "the parameter " + trained.path;
  }
  const auto watch = [&](const graph::Node& node, const std::vector<Placed>& made) {
    for (const Placed& value : made) {
      if (found.empty() && !is_finite(value)) found = fmt::format("made by {} at {}", name_of(node.op), node.path);
    }
  };
  const std::int64_t count = settings_.integer("gradient_accumulation_steps");
  for (std::int64_t index = 0; index < count && found.empty(); ++index) run_microbatch(batch, {step, index, count}, {watch});
  return found.empty() ? "not found when the step is run again" : found;
}

StepMetrics Trainer::step(const Batch& batch) {
  Gradients made = gradients(batch);
  made.logits = {};
  return update(made);
}

StepMetrics Trainer::update(const Gradients& gradients) {
  StepMetrics metrics = gradients.metrics;
  metrics.step = steps_done_;
  metrics.learning_rate = learning_rate(settings_, steps_done_);
  const std::int64_t count = settings_.integer("gradient_accumulation_steps");
  const double factor = count > 1 ? 1 / gradients.metrics.total_weights : 1;
  std::vector<Placed> feeds{
      everywhere(floats(*pool_, {metrics.learning_rate, static_cast<double>(steps_done_ + 1)}, {2})),
      everywhere(floats(*pool_, {factor}, {})),
      everywhere(floats(*pool_, muon_mixing(settings_.real("muon_beta"), steps_done_ + 1), {2}))};
  for (std::size_t i = 0; i < programs_.parameters.size(); ++i) {
    const State& state = state_.at(programs_.parameters[i].path);
    feeds.push_back(state.parameter);
    feeds.push_back(gradients.gradients[i]);
    feeds.insert(feeds.end(), state.moments.begin(), state.moments.end());
  }
  const std::vector<Placed> made = executor_.run(programs_.update, std::move(feeds));
  metrics.raw_grad_norm = std::sqrt(scalar(made[0]));
  metrics.grad_norm = std::sqrt(scalar(made[1]));
  metrics.param_norm = std::sqrt(scalar(made[2]));
  ++steps_done_;
  const bool is_finite = std::isfinite(metrics.loss) && std::isfinite(metrics.raw_grad_norm);
  metrics.is_left_out = !is_finite && guards_parameters_;
  if (metrics.is_left_out) return metrics;
  std::size_t next = 3;
  for (const Trained& trained : programs_.parameters) {
    State& state = state_.at(trained.path);
    state.parameter = made[next++];
    for (Placed& moment : state.moments) moment = made[next++];
  }
  if (settings_.real("routed_bias_update_rate") > 0) {
    balance_biases(gradients.loads);
  }
  return metrics;
}

void initialize(Trainer& trainer, const graph::Graph& model, std::int64_t seed, run::Workers& workers) {
  Progress progress("parameters", static_cast<std::int64_t>(trainer.parameters().size()));
  std::int64_t done = 0;
  for (const graph::Node& node : model.nodes) {
    if (node.op != graph::Op::parameter) continue;
    progress.advance(done++);
    const graph::Value& value = model.value(node.results.front());
    const auto& of = std::get<graph::ParameterOf>(node.attributes);
    trainer.set_parameter(node.path, initial_value(node.path, value.shape, value.dtype, of.initializer, seed, trainer.pool(), workers));
  }
}

namespace {

// By how much each expert's bias of a layer moves: the rate towards the mean load, once for every microbatch, as in MaxText.
std::vector<float> bias_steps(const std::vector<Array>& loads, std::int64_t layer, float rate) {
  const std::int64_t experts = loads.front().view.shape.back() - 1;  // the last number is that of dropped choices
  std::vector<float> steps(static_cast<std::size_t>(experts), 0);
  for (const Array& of_microbatch : loads) {
    const float* row = of_microbatch.as<float>() + layer * (experts + 1);
    const float mean = std::accumulate(row, row + experts, 0.0f) / static_cast<float>(experts);
    for (std::int64_t e = 0; e < experts; ++e) {
      steps[static_cast<std::size_t>(e)] += row[e] < mean ? rate : row[e] > mean ? -rate : 0;
    }
  }
  return steps;
}

}  // namespace

// The step is rounded to the bias's type before it is added, as in MaxText.
void Trainer::balance_biases(const std::vector<Array>& loads) {
  if (loads.empty()) return;
  const auto rate = static_cast<float>(settings_.real("routed_bias_update_rate"));
  std::int64_t layer = 0;
  for (const Trained& trained : programs_.parameters) {
    if (trained.role != graph::Role::router_bias) continue;
    State& state = state_.at(trained.path);
    const Array bias = copy_of(whole(state.parameter), *pool_);
    run::cpu::for_floating(trained.dtype, [&]<typename T>() {
      const std::int64_t layers = bias.view.count() / (loads.front().view.shape.back() - 1);
      for (std::int64_t l = 0; l < layers; ++l, ++layer) {
        T* of_layer = bias.as<T>() + l;
        for (const float step : bias_steps(loads, layer, rate)) {
          *of_layer = run::cpu::store<T>(run::cpu::load(*of_layer) + run::cpu::load(run::cpu::store<T>(step)));
          of_layer += layers;
        }
      }
    });
    state.parameter = place(trained.path, bias);
  }
}

}  // namespace moesh::train
