// Plans what a request runs: a training step or, where its session decodes, a step of decoding.
#pragma once

#include <vector>

#include "forecast/forecast.h"
#include "partition/partition.h"
#include "plan/plan.h"
#include "session/session.h"

namespace moesh::advice {

struct PlannedRun {
  session::Session session;
  plan::Plan plan;
  std::vector<partition::Choice> choices;
  forecast::Forecast forecast;
};

// Refuses a session that can be laid out but not run.
PlannedRun plan_run(session::Session session);

}  // namespace moesh::advice
