// A forecast as tables for people.
#pragma once

#include <optional>
#include <string>

#include "forecast/forecast.h"
#include "forecast/routing.h"

namespace moesh::forecast {

struct ReportOptions {
  bool all = false;  // list every collective and buffer, not only the largest
  int width = 0;     // of the terminal; 0: as wide as it gets
};

// `routing`: of a plan that draws experts at random.
std::string report(const Forecast& forecast, const std::optional<Routing>& routing, const plan::Plan& plan, const ReportOptions& options);

// Whether it fits, and by how much; in one line.
std::string fit_words(const Forecast& forecast);

// As human_seconds, but with three digits where steps differ in them.
std::string seconds_words(double seconds);

// Where in the step the most memory is needed: "in decoder/layers', at decoder/layers/MoeBlock_0/wo' (einsum,
// backward)".
std::string place_words(const plan::Plan& plan, plan::InstructionId at);

}  // namespace moesh::forecast
