// Plans a step of decoding for hardware that need not be there, and forecasts what it takes. No weights are allocated, nothing is run.
#pragma once

#include "decode/program.h"
#include "forecast/forecast.h"
#include "session/session.h"

namespace moesh::decode {

struct PlannedStep {
  Program program;
  plan::Plan plan;
  forecast::Forecast forecast;
};

// `session`: one that decodes.
PlannedStep plan_step(const session::Session& session);

// A sentence on the memory that a step takes and that is available.
std::string fit_words(const session::Session& session);

// The most rows of which each device's memory holds weights, KV cache and working values: as many for each device or, if not even one for
// each fits, fewer than there are devices. `planned`: the session's own step.
forecast::MostRows most_rows(const session::Session& session, const forecast::Forecast& planned);

}  // namespace moesh::decode
