// What a machine can do at most, in words and as JSON.
#pragma once

#include <string>

#include "base/json.h"
#include "measure/rates.h"

namespace moesh::cli {

std::string giga(double rate);  // of FLOP or bytes a second; nothing where there is next to none
std::string rates_words(const measure::MachineRates& rates);
void add(JsonWriter& json, const measure::MachineRates& rates);

}  // namespace moesh::cli
