// A request planned as a training step, and what that step will take.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "forecast/forecast.h"
#include "session/session.h"
#include "train/program.h"

namespace moesh::advice {

struct PlannedStep {
  train::StepProgram program;
  forecast::Forecast forecast;
};

// Refuses what can be laid out, but not run.
PlannedStep plan_step(const session::Session& session);

struct Planned {
  session::Session session;
  PlannedStep step;
};

Planned plan_step(const std::vector<std::string>& request);

using Keys = std::vector<std::string>;  // "remat_policy=full"

// The request with these keys besides, planned; nothing where it is refused. Nothing is told of it.
std::optional<Planned> try_keys(const std::vector<std::string>& request, const Keys& keys);

}  // namespace moesh::advice
