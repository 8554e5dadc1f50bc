// Prints how the time of a step divides among kinds of instructions, as a table and as JSON.
#pragma once

#include <span>
#include <string>

#include "base/json.h"
#include "measure/profile.h"

namespace moesh::cli {

// `seconds` is the duration of the whole step.
std::string times_words(std::span<const measure::KindTime> times, double seconds, int width);
void add(JsonWriter& json, std::span<const measure::KindTime> times);

}  // namespace moesh::cli
