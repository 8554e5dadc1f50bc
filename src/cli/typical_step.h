// A training step as it runs here: the one that took the middle of the times of some.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "backend/workers.h"
#include "run/program.h"
#include "session/session.h"
#include "train/trainer.h"

namespace moesh::cli {

using Spans = std::vector<run::Span>;  // of a step

// The one that took the middle of the times of some.
Spans middle_of(std::vector<Spans> steps);

class TypicalStep {
 public:
  // `steps` are timed, after one that touches its memory for the first time. `tells`: progress, on the error stream.
  TypicalStep(const session::Session& session, std::int64_t steps, backend::Workers& workers, bool tells = true);

  const plan::Plan& plan() const { return trainer_->plan(); }
  const Spans& spans() const { return spans_; }
  double seconds() const;

 private:
  std::unique_ptr<train::Trainer> trainer_;
  Spans spans_;
};

}  // namespace moesh::cli
