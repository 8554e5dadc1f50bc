// Times several training steps on this machine and keeps the one with the median duration.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "backend/workers.h"
#include "run/program.h"
#include "session/session.h"
#include "train/trainer.h"

namespace moesh::cli {

using Spans = std::vector<run::Span>;  // the timed instructions of one step

// The step with the median duration.
Spans middle_of(std::vector<Spans> steps);

class TypicalStep {
 public:
  // Times `steps` steps, after an untimed one that touches the memory for the first time. `tells`: shows progress on standard error.
  TypicalStep(const session::Session& session, std::int64_t steps, backend::Workers& workers, bool tells = true);

  const plan::Plan& plan() const { return trainer_->plan(); }
  const Spans& spans() const { return spans_; }
  double seconds() const;

 private:
  std::unique_ptr<train::Trainer> trainer_;
  Spans spans_;
};

}  // namespace moesh::cli
