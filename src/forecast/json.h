// A forecast as JSON, by the names that recorded steps of the reference's compiler use.
#pragma once

#include <optional>

#include "base/json.h"
#include "forecast/forecast.h"
#include "forecast/routing.h"

namespace moesh::forecast {

// An object with memory_per_device, collectives, seconds_per_step and the rest.
// `routing`: of a plan that draws experts at random.
void write(const Forecast& forecast, const std::optional<Routing>& routing, const plan::Plan& plan, JsonWriter& json);

}  // namespace moesh::forecast
