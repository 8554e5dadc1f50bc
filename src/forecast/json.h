// A forecast as JSON, by the names that recorded steps of the reference's compiler use.
#pragma once

#include <string>

#include "base/json.h"
#include "forecast/forecast.h"

namespace moesh::forecast {

// An object with memory_per_device, collectives, seconds_per_step and the rest.
void write(const Forecast& forecast, const plan::Plan& plan, JsonWriter& json);

}  // namespace moesh::forecast
