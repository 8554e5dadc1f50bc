// A request planned as a training step, and what that step will take.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "config/keys.h"
#include "forecast/forecast.h"
#include "session/session.h"
#include "train/program.h"

namespace moesh::advice {

using config::joined;
using config::Keys;

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

// How many changes of a request are tried at most: planning takes longer the more a model's graph has, as where each layer stands
// in it. So many that all are tried where layers are scanned.
int most_trials(const session::Session& session);

// The rule sets that come with moesh, without those of pipelines, which are not run.
std::vector<std::string> rule_sets_to_try();

// Whether a step is planned in a moment.
bool plans_at_once(const session::Session& session);

// The request with these keys besides, planned; nothing where it is refused. Nothing is told of it.
std::optional<Planned> try_keys(const std::vector<std::string>& request, const Keys& keys);

}  // namespace moesh::advice
