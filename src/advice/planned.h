// Plans a request as a training step, and forecasts what that step takes.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "config/request.h"
#include "forecast/forecast.h"
#include "session/session.h"
#include "train/program.h"

namespace moesh::advice {

using config::joined;
using config::Keys;
using config::Request;

struct PlannedStep {
  train::StepProgram program;
  forecast::Forecast forecast;
};

// Refuses a session that can be laid out but not run.
PlannedStep plan_step(const session::Session& session);

// Logs what of the request a training step does not heed: what its plan keeps on the devices although it is to be offloaded, and an indexer
// that leaves nothing out.
void note_unheeded(const session::Session& session);

struct Planned {
  session::Session session;
  PlannedStep step;
};

Planned plan_step(const std::vector<std::string>& request);

// The most changes of a request that are planned. Planning takes longer the more nodes a model's graph has, as with layers that are not
// scanned. If layers are scanned, the number is large enough to try all changes.
int most_trials(const session::Session& session);

// The rule sets that come with moesh, except those for pipelines, which are not run.
std::vector<std::string> rule_sets_to_try();

// Whether the graph is small enough for a step to be planned in a moment.
bool plans_at_once(const session::Session& session);

// The request with these keys added, laid out, which takes little next to planning it; nothing if it is refused. No notices are logged.
std::optional<session::Session> lay_out_keys(const Request& request, const Keys& keys,
                                             session::Evenness evenness = session::Evenness::demanded);

// Plans the session; nothing if that is refused.
std::optional<Planned> try_plan(session::Session session);

// Plans the request with these keys added; nothing if it is refused. No notices are logged.
std::optional<Planned> try_keys(const Request& request, const Keys& keys);

}  // namespace moesh::advice
