// A forecast as JSON, with the key names of the steps recorded from the reference's compiler.
#pragma once

#include <optional>

#include "base/json.h"
#include "forecast/forecast.h"
#include "forecast/routing.h"

namespace moesh::forecast {

// Writes memory_per_device, collectives, seconds_per_step and the rest into the object that is open.
// `routing`: given if the plan draws experts at random.
void write_members(const Forecast& forecast, const std::optional<Routing>& routing, const plan::Plan& plan, JsonWriter& json);

}  // namespace moesh::forecast
