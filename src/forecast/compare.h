// Compares two forecasts side by side.
#pragma once

#include <string>

#include "forecast/forecast.h"

namespace moesh::forecast {

// One table of time and memory, and one of the collectives that differ.
std::string compare(const Forecast& before, const Forecast& after, int width);

}  // namespace moesh::forecast
