// The loss of a model in training on data that it is not trained on.
#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <optional>

#include "data/source.h"
#include "train/batches.h"
#include "train/company.h"
#include "train/program.h"
#include "train/trainer.h"

namespace moesh::train {

// Metrics of one evaluation, over all its batches.
struct EvalMetrics {
  std::int64_t step = 0;  // the training step after which it ran
  std::int64_t batches = 0;
  double loss = 0;           // cross entropy per position
  double total_weights = 0;  // positions that count in the loss
  double z_loss = 0;         // the part of the loss that z_loss_multiplier makes; this and the next are means over the batches
  double balance_loss = 0;
  // With mtp_eval_target_module, means over the batches: the modules' loss, and how many of a hundred of its guesses are the model's own.
  std::optional<double> mtp_loss, mtp_acceptance;
  std::optional<double> index_loss;  // with an indexer, mean over the batches
  double seconds = 0;
};

// Whether eval_start_step and eval_interval ask for an evaluation after this step.
bool is_evaluated_after(const config::Settings& settings, std::int64_t step);
// Whether the loss of an evaluation has reached target_eval_loss.
bool reaches_target(const config::Settings& settings, double loss);

class Evaluation {
 public:
  // `program`: see evaluation_program. It uses the scratch memory of the trainer's step if that is large enough. `threads`: how
  // many threads may read ahead.
  Evaluation(const Subject& subject, StepProgram program, Trainer& trainer, int threads);

  std::string describe() const;  // how often it runs, and on what
  // Calls `must_end` before each batch, and returns no metrics if it says so. The batch has been read by then: `must_end` gets the error of
  // reading it, or null, and must return true for an error. `see` gets the number of batches done so far.
  std::optional<EvalMetrics> run(std::int64_t step, const std::function<bool(const std::exception_ptr& failure)>& must_end,
                                 const std::function<void(std::int64_t)>& see = {});
  std::int64_t batches() const { return batches_; }

 private:
  double result(const char* name) const;
  double acceptance(const Batch& batch) const;
  run::Array guesses(const char* name) const;
  Batch read(std::int64_t number);

  const config::Settings& settings_;
  Trainer& trainer_;
  std::unique_ptr<data::TokenSource> source_;
  std::int64_t rows_;  // per batch
  std::int64_t length_, vocab_size_, batches_;
  std::int64_t examined_;  // the module whose guesses are compared; 0 for none
  bool has_indexer_;
  Feeding feeding_;
  run::Program program_;
};

}  // namespace moesh::train
