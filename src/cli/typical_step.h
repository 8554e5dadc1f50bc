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

class TypicalStep {
 public:
  // `steps` are timed, after one that touches its memory for the first time. `tells`: progress, on the error stream.
  TypicalStep(const session::Session& session, std::int64_t steps, backend::Workers& workers, bool tells = true);

  const plan::Plan& plan() const { return trainer_->plan(); }
  const std::vector<run::Span>& spans() const { return spans_; }
  double seconds() const { return spans_.empty() ? 0 : spans_.back().end; }

 private:
  std::unique_ptr<train::Trainer> trainer_;
  std::vector<run::Span> spans_;
};

}  // namespace moesh::cli
