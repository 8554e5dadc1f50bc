// A model in training: its parameters, the optimizer's state, and the step.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "config/settings.h"
#include "graph/graph.h"
#include "run/audit.h"
#include "run/program.h"
#include "train/company.h"
#include "train/feeding.h"
#include "train/program.h"

namespace moesh::train {

// How the experts were used in a step.
struct ExpertLoad {
  std::int64_t experts = 0;
  std::vector<double> tokens;   // per layer and expert, [layers * experts]
  std::vector<double> dropped;  // choices that found no room, per layer
  std::vector<double> sent;     // bytes that each device sent in regions; empty without regions on several devices

  std::int64_t layers() const { return static_cast<std::int64_t>(dropped.size()); }
  double max_over_mean(std::int64_t layer) const;  // for the tokens of one layer
  double max_over_mean() const;                    // for the layer with the largest ratio
};

struct StepMetrics {
  std::int64_t step = 0;
  double learning_rate = 0;  // of the update
  double loss = 0;          // as reported: lm_loss plus a microbatch's means of the three losses below
  double lm_loss = 0;       // cross entropy per position; 0 if the indexer is trained alone
  double z_loss = 0;        // the part of it that z_loss_multiplier makes; summed over microbatches, as are the three below
  double balance_loss = 0;
  std::optional<double> mtp_loss;    // with multi-token prediction
  std::optional<double> index_loss;  // with an indexer; 0 if it has no loss
  std::optional<double> max_logits;  // the highest score of attention, with use_qk_clip
  double total_weights = 0;  // positions that count
  double raw_grad_norm = 0;
  double grad_norm = 0;     // after clipping
  double param_norm = 0;    // after the update
  ExpertLoad load;           // of a model with experts
  bool is_left_out = false;           // the loss or a gradient is not finite, or a spike: parameters stayed as they were
  std::optional<SpikeLimits> limits;  // with skip_step_on_spikes
};

// The results of a step besides the new parameters and moments.
struct StepResults {
  StepMetrics metrics;
  std::vector<run::Array> loads;  // per microbatch, [MoE layers, E + 1], see models::results
  // In the program's memory. The logits are those of all microbatches, [microbatches, rows, length, V], with their positions in the
  // order that context parallelism uses; the gradients have yet to be multiplied with the factor, which does not include clipping.
  run::Placed logits;
  std::vector<run::Placed> gradients;  // in the order of parameters()
  double gradient_factor = 1;
};

class Trainer {
 public:
  Trainer(StepProgram program, const config::Settings& settings, backend::Workers& workers, const Company& company = {});

  const std::vector<Trained>& parameters() const { return parameters_; }
  run::Array parameter(const std::string& path) const { return whole(state(path)); }
  run::Array moment(const std::string& name) const { return whole(state(name)); }
  void set_parameter(const std::string& path, run::Array value);  // refuses another shape or type; clears its moments

  // The names of parameters and moments, in the order in which a step changes them.
  const std::vector<std::string>& state_names() const { return state_names_; }
  run::Placed state(const std::string& name) const;
  // Where a state lies, as far as it is in this process, and the blocks of it that this process writes to a checkpoint.
  std::vector<store::Part> state_parts(const std::string& name) const { return state_->parts(name); }
  std::vector<store::Block> state_share(const std::string& name) const { return state_->share(name); }
  // The names of the states that an instruction changes.
  std::vector<std::string_view> changed_by(const plan::Instruction& instruction) const;
  void clear_moments();  // sets them to zero, as they are before the first step
  // To be called once all states have been written through their parts: the next step is the one after `step`.
  void go_on_after(std::int64_t step);
  RecentSteps& recent() { return recent_; }
  const RecentSteps& recent() const { return recent_; }

  // A program on the same parameters, which uses the scratch memory of the step if that is large enough.
  run::Program beside(plan::Plan plan) const;

  // Values in the results that are laid out on devices stay valid until the next step. If a step fails midway, parameters and
  // moments are lost, so that nothing half updated is ever used. The observers' `sent` is replaced by the step's own.
  StepResults run_step(const Batch& batch, run::Observers observers = {});
  StepMetrics step(const Batch& batch) { return run_step(batch).metrics; }
  run::Array logits(const StepResults& results) const;  // gathered, in the order of the batch
  // Runs a step that was done on this batch once more, and says where the first value that is not finite is made.
  std::string first_not_finite(const Batch& batch, std::int64_t step);
  std::int64_t steps_done() const { return steps_done_; }
  const plan::Plan& plan() const { return program_.plan(); }
  run::Audit audit() const { return run::audit(program_); }  // over all steps

  run::Pool& pool() { return *pool_; }
  std::int64_t bytes() const { return program_.bytes() + program_.state_bytes(); }  // of parameters, moments and the program
  run::Array whole(const run::Placed& value) const { return run::gathered(value, program_.mesh(), *pool_, workers_); }

 private:
  run::ProgramOptions options(const mesh::Mesh& mesh) const;
  StepNumbers numbers_of(std::int64_t step) const { return {step, step - recent_.left_out(), recent_.limits()}; }
  StepResults read(const StepNumbers& numbers) const;
  void sum_sent(std::vector<double>& sent) const;

  config::Settings settings_;
  backend::Workers& workers_;
  Company company_;
  std::shared_ptr<run::Pool> pool_ = run::Pool::create();
  std::vector<Trained> parameters_;
  Feeding feeding_;
  RecentSteps recent_;
  std::shared_ptr<run::State> state_ = std::make_shared<run::State>();
  int owners_;
  run::Program program_;
  std::vector<std::string> state_names_;
  std::map<plan::BufferId, std::string> state_buffers_;
  std::set<std::string> lost_;       // parameters and moments that a failed step left half updated
  std::int64_t steps_done_ = 0;
};

// Sets every parameter to its initial value.
void initialize(Trainer& trainer, const graph::Graph& model, std::int64_t seed, backend::Workers& workers);

}  // namespace moesh::train
