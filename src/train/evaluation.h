// The loss of a model in training on data that it is not trained on.
#pragma once

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
  double balance_loss = 0;   // mean over the batches
  double seconds = 0;
};

class Evaluation {
 public:
  // `program`: see evaluation_program. It uses the scratch memory of the trainer's step if that is large enough. `threads`: how
  // many threads may read ahead.
  Evaluation(const Subject& subject, StepProgram program, Trainer& trainer, int threads);

  std::string describe() const;  // how often it runs, and on what
  // Whether eval_start_step and eval_interval ask for an evaluation after this step.
  bool is_due(std::int64_t step) const;
  // Asks before each batch whether it must end, and returns no metrics if so. `see` is told the number of batches that are done.
  std::optional<EvalMetrics> run(std::int64_t step, const std::function<bool()>& must_end,
                                 const std::function<void(std::int64_t)>& see = {});
  std::int64_t batches() const { return batches_; }
  // Whether the loss has reached target_eval_loss.
  bool reaches_target(const EvalMetrics& metrics) const;

 private:
  double result(const char* name) const;

  const config::Settings& settings_;
  Trainer& trainer_;
  std::unique_ptr<data::TokenSource> source_;
  std::int64_t rows_;  // per batch
  std::int64_t length_, vocab_size_, batches_;
  Feeding feeding_;
  run::Program program_;
};

}  // namespace moesh::train
