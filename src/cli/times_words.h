// Shows how the time of a step divides among kinds of instructions: as a table, as JSON and as a picture.
#pragma once

#include <span>
#include <string>

#include "base/json.h"
#include "measure/profile.h"
#include "page/bars.h"

namespace moesh::cli {

// `seconds` is the duration of the whole step.
std::string times_words(std::span<const measure::KindTime> times, double seconds, int width);
void add(JsonWriter& json, std::span<const measure::KindTime> times);
page::Bars bars_of(std::span<const measure::KindTime> times, double seconds, const std::string& title);

}  // namespace moesh::cli
