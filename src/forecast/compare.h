// Two forecasts side by side.
#pragma once

#include <string>

#include "forecast/forecast.h"

namespace moesh::forecast {

// Time, memory, and the collectives that differ.
std::string compare(const Forecast& before, const Forecast& after, int width);

}  // namespace moesh::forecast
