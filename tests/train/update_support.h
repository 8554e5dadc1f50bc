// The update of a step by itself, computed from given gradients.
#pragma once

#include <map>
#include <random>
#include <string>
#include <vector>

#include "tests/train/trainer_support.h"
#include "train/initialize.h"
#include "train/spikes.h"
#include "train/step.h"
#include "train/update.h"

namespace moesh::test {

using Numbers = std::vector<double>;

struct Updated {
  double raw_grad_norm = 0, grad_norm = 0, param_norm = 0;
  bool is_applied = false;
};

class Updating {
 public:
  // `devices` is passed to add_update; the update itself runs on one device.
  explicit Updating(const std::string& request, std::int64_t devices = 1, std::int64_t microbatches = 1)
      : session(test::session(request)), trained(train::trained_parameters(session.graph, settings())) {
    graph::Builder builder;
    train::UpdateOf of;
    for (const graph::Node& node : session.graph.nodes) {
      if (node.op != graph::Op::parameter) continue;
      const graph::Value& value = session.graph.value(node.results.front());
      const auto& parameter = std::get<graph::ParameterOf>(node.attributes);
      of.parameters.push_back(builder.parameter(node.path, value.shape, value.dtype, parameter));
      of.gradients.push_back(builder.input("gradient/" + node.path, value.shape, DType::float32, parameter.labels));
      state[node.path] = train::initial_value(node.path, value.shape, value.dtype, parameter.initializer,
                                              settings().integer("init_weights_seed"), *pool, workers);
    }
    of.loss = builder.input("loss", {}, DType::float32, {});
    if (settings().real("routed_bias_update_rate") > 0) {
      std::int64_t biases = 0;
      for (const train::Trained& t : trained) biases += t.role == graph::Role::router_bias ? elements(t.shape) : 0;
      const std::int64_t experts = session.shape.moe.experts;
      of.expert_load =
          builder.input("expert_load", {microbatches, biases / experts, experts + 1}, DType::float32, {"", "", ""});
    }
    add_update(builder, trained, of, settings(), devices);
    graph = builder.take();
    for (const graph::Node& node : graph.nodes) {
      if (!graph::is_input(node, graph::InputOf::Kind::moment)) continue;
      const graph::Value& value = graph.value(node.results.front());
      state[node.path] = pool->allocate(value.shape, value.dtype);
      std::memset(state[node.path].raw(), 0, static_cast<std::size_t>(state[node.path].bytes()));
    }
  }

  const config::Settings& settings() const { return session.loaded.settings; }

  // `load` is the load of the experts, for every microbatch and layer.
  Updated update(const std::vector<Numbers>& gradients, double loss = 1, const Numbers& load = {}) {
    std::vector<run::Array> feeds;
    std::size_t next = 0;
    for (const graph::Node& node : graph.nodes) {
      if (!graph::is_root(node)) continue;
      const Shape& shape = graph.value(node.results.front()).shape;
      if (state.contains(node.path)) {
        feeds.push_back(state.at(node.path));
      } else if (node.path == "loss") {
        feeds.push_back(array(shape, {loss}));
      } else if (node.path == "expert_load") {
        feeds.push_back(array(shape, load));
      } else if (node.path == train::update_inputs::learning_rate) {
        feeds.push_back(array(shape, {train::learning_rate(settings(), steps)}));
      } else if (node.path == train::update_inputs::step) {
        feeds.push_back(array(shape, {static_cast<double>(steps + 1)}));
      } else if (node.path == train::update_inputs::loss_limit) {
        feeds.push_back(array(shape, {limits.loss}));
      } else if (node.path == train::update_inputs::grad_norm_limit) {
        feeds.push_back(array(shape, {limits.grad_norm}));
      } else {
        feeds.push_back(array(shape, gradients.at(next++)));
      }
    }
    const std::vector<run::Array> made = run::evaluate(graph, feeds, workers);
    for (std::size_t i = 0; i < made.size(); ++i) {
      if (const auto kept = state.find(graph.result_names[i]); kept != state.end()) kept->second = made[i];
    }
    ++steps;
    const auto scalar = [&](const char* name) {
      return static_cast<double>(made[static_cast<std::size_t>(find_result(graph, name))].as<float>()[0]);
    };
    namespace results = train::update_results;
    return {scalar(results::raw_grad_norm), scalar(results::grad_norm), scalar(results::param_norm),
            scalar(results::applied) == 1};
  }

  run::Array array(const Shape& shape, const Numbers& values) {
    run::Array made = pool->allocate(shape, DType::float32);
    EXPECT_EQ(made.view.count(), static_cast<std::int64_t>(values.size()));
    for (std::size_t i = 0; i < values.size(); ++i) made.as<float>()[i] = static_cast<float>(values[i]);
    return made;
  }

  // The values of a parameter, or of a moment, by its name.
  Numbers numbers(const std::string& name) const {
    const run::Array& array = state.at(name);
    Numbers all;
    for (std::int64_t i = 0; i < array.view.count(); ++i) {
      all.push_back(array.view.dtype == DType::bfloat16
                        ? static_cast<double>(static_cast<float>(array.as<bfloat16>()[i]))
                        : static_cast<double>(array.as<float>()[i]));
    }
    return all;
  }

  std::vector<Numbers> parameters() const {
    std::vector<Numbers> all;
    for (const train::Trained& t : trained) all.push_back(numbers(t.path));
    return all;
  }

  session::Session session;
  std::vector<train::Trained> trained;
  graph::Graph graph;
  std::map<std::string, run::Array> state;  // parameters and moments
  std::int64_t steps = 0;
  train::SpikeLimits limits = {};

 private:
  backend::Workers workers{2};
  std::shared_ptr<run::Pool> pool = run::Pool::create();
};

inline const std::string kConstantRate = kTinyModel + "learning_rate=0.03 warmup_steps_fraction=0 learning_rate_final_fraction=1 ";

inline Numbers random_numbers(std::int64_t count, unsigned seed) {
  std::mt19937 random(seed);
  Numbers made;
  for (std::int64_t i = 0; i < count; ++i) {
    made.push_back(static_cast<double>(static_cast<float>(static_cast<double>(random()) / 2147483648.0 - 1)));
  }
  return made;
}

// A random gradient for every parameter instead of the model's.
inline std::vector<Numbers> random_gradients(const Updating& updating, unsigned seed) {
  std::vector<Numbers> all;
  for (const train::Trained& trained : updating.trained) {
    all.push_back(random_numbers(elements(trained.shape), seed + static_cast<unsigned>(all.size())));
  }
  return all;
}

}  // namespace moesh::test
