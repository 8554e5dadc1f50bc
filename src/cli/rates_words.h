// Prints the peak rates of a machine, in words and as JSON.
#pragma once

#include <string>

#include "base/json.h"
#include "measure/rates.h"

namespace moesh::cli {

std::string giga(double rate);  // a rate in FLOP/s or bytes/s as a multiple of 1e9; empty below 0.05
std::string rates_words(const measure::MachineRates& rates);
void add(JsonWriter& json, const measure::MachineRates& rates);

}  // namespace moesh::cli
