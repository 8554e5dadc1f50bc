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
#include "train/programs.h"

namespace moesh::train {

// Rows of a global batch: "inputs", "targets", "inputs_position", "inputs_order", "inputs_segmentation" and
// "targets_segmentation", [B, S] each.
using Batch = std::map<std::string, run::Array>;

// How the experts were used in a step.
struct ExpertLoad {
  std::int64_t experts = 0;
  std::vector<double> tokens;   // of each layer's experts, [layers * experts]
  std::vector<double> dropped;  // choices that found no room, of each layer
  std::vector<double> sent;     // bytes that each device sent in regions; empty without regions on several devices

  std::int64_t layers() const { return static_cast<std::int64_t>(dropped.size()); }
  double max_over_mean(std::int64_t layer) const;  // of a layer's tokens
};

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
  ExpertLoad load;           // of a model with experts
  bool is_left_out = false;  // the loss or a gradient is not finite: parameters stayed as they were
};

class Trainer {
 public:
  Trainer(StepPrograms programs, const config::Settings& settings, run::Workers& workers);

  const std::vector<Trained>& parameters() const { return programs_.parameters; }
  run::Array parameter(const std::string& path) const { return whole(state_.at(path).parameter); }
  void set_parameter(const std::string& path, run::Array value);  // refuses another shape; clears its moments

  struct Gradients {
    StepMetrics metrics;
    run::Placed logits;  // of the last microbatch, in the order that context parallelism has its positions
    std::vector<run::Array> loads;       // of each microbatch, [MoE layers, E + 1], see models::results
    std::vector<run::Placed> gradients;  // in the order of parameters(), before clipping
  };
  Gradients gradients(const Batch& batch);
  run::Array logits(const Gradients& gradients) const;  // whole, in the batch's order
  StepMetrics update(const Gradients& gradients);
  StepMetrics step(const Batch& batch);
  // Where the first value that is not finite is made in a step that was done on this batch, for a message.
  std::string first_not_finite(const Batch& batch, std::int64_t step);
  std::int64_t steps_done() const { return steps_done_; }

  run::Pool& pool() { return *pool_; }
  run::Array whole(const run::Placed& value) const { return run::gathered(value, executor_.mesh(), *pool_, workers_); }

 private:
  struct State {
    run::Placed parameter;
    std::vector<run::Placed> moments;
  };
  run::Placed place(const std::string& path, const run::Array& value);  // as the update takes it
  struct Microbatch {
    std::int64_t step = 0;
    std::int64_t index = 0;
    std::int64_t count = 1;  // of a step
  };
  void balance_biases(const std::vector<run::Array>& loads);
  run::Placed draw_keys(const graph::Value& value, std::int64_t step);
  run::Array rows_of(const Batch& batch, const std::string& name);
  std::vector<run::Placed> run_microbatch(const Batch& batch, const Microbatch& of, const run::Observers& observers);

  config::Settings settings_;
  run::Workers& workers_;
  std::shared_ptr<run::Pool> pool_;
  run::Executor executor_;
  StepPrograms programs_;
  std::map<std::string, sharding::Spec> specs_;  // of the update's inputs
  std::vector<std::int64_t> order_;  // of the positions of a row; empty: as they come
  bool guards_parameters_;  // from updates that are not finite
  std::map<std::string, State> state_;
  std::int64_t steps_done_ = 0;
};

// Every parameter to its initial value.
void initialize(Trainer& trainer, const graph::Graph& model, std::int64_t seed, run::Workers& workers);

}  // namespace moesh::train
