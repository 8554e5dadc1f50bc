// A forecast as sentences and tables for people to read.
#pragma once

#include <optional>
#include <string>

#include "forecast/forecast.h"
#include "forecast/routing.h"

namespace moesh::forecast {

struct ReportOptions {
  bool all = false;  // list every collective and buffer, not only the largest
  int width = 0;     // of the terminal; 0: unlimited
  double model_flops = 0;       // of a training step, over all devices
  std::string mfu_is_of = {};   // the type whose peak the MFU is of, if products are of another
};

// `routing`: given if the plan draws experts at random.
std::string report(const Forecast& forecast, const std::optional<Routing>& routing, const plan::Plan& plan, const ReportOptions& options);

// One line on whether the step fits and by how much, and another on what waits in the host's memory, if anything does.
std::string fit_words(const Forecast& forecast);

// The seconds of all collectives on the critical path of the step.
double critical_of_collectives(const Forecast& forecast);

// A sentence on what the step of XLA, or of the request's program, would take, if it would hardly fit, or on the memory of values that it
// holds and plans do not, if that is much; begins with a space, or is empty.
std::string engine_words(const Forecast& forecast);

// Describes a place in the step, such as the one where the most memory is needed: "in decoder/layers', at
// decoder/layers/MoeBlock_0/wo' (einsum, backward; instruction 312)".
std::string place_words(const plan::Plan& plan, plan::InstructionId at);

}  // namespace moesh::forecast
