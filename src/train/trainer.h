// A model in training: its parameters, the optimizer's state, and a step.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "config/settings.h"
#include "graph/graph.h"
#include "run/executor.h"
#include "train/step.h"

namespace moesh::train {

// Rows of a global batch: "inputs", "targets", "inputs_position", "inputs_segmentation", "targets_segmentation", [B, S] each.
using Batch = std::map<std::string, run::Array>;

struct StepMetrics {
  std::int64_t step = 0;
  double learning_rate = 0;
  double loss = 0;          // as reported: lm_loss plus the balance loss
  double lm_loss = 0;       // cross entropy a position
  double balance_loss = 0;
  double total_weights = 0;  // positions that count
  double raw_grad_norm = 0;
  double grad_norm = 0;     // after clipping
  double param_norm = 0;    // after the update
};

class Trainer {
 public:
  Trainer(const graph::Graph& model, const config::Settings& settings, run::Workers& workers);

  const std::vector<Trained>& parameters() const { return parameters_; }
  const run::Array& parameter(const std::string& path) const { return state_.at(path).parameter; }
  void set_parameter(const std::string& path, run::Array value);  // refuses another shape; clears its moments

  struct Gradients {
    StepMetrics metrics;
    run::Array logits;  // of the last microbatch
    run::Array load;    // [MoE layers, E], where the router's bias follows it
    std::vector<run::Array> gradients;  // in the order of parameters(), before clipping
  };
  Gradients gradients(const Batch& batch);
  StepMetrics update(const Gradients& gradients);
  StepMetrics step(const Batch& batch) { return update(gradients(batch)); }
  // Where the first value that is not finite is made, for a message.
  std::string first_not_finite(const Batch& batch);
  std::int64_t steps_done() const { return steps_done_; }

  run::Pool& pool() { return *pool_; }

 private:
  struct State {
    run::Array parameter;
    std::vector<run::Array> moments;
  };
  void balance_biases(const run::Array& load);
  std::vector<run::Array> run_microbatch(const Batch& batch, std::int64_t index, std::int64_t count);

  config::Settings settings_;
  std::shared_ptr<run::Pool> pool_;
  run::Executor executor_;
  std::size_t model_results_;
  std::vector<Trained> parameters_;
  graph::Graph gradient_graph_;
  graph::Graph update_graph_;
  std::map<std::string, State> state_;
  std::int64_t steps_done_ = 0;
};

}  // namespace moesh::train
