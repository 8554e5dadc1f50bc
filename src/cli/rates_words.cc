#include "cli/rates_words.h"

#include <string_view>

#include <fmt/core.h>

namespace moesh::cli {

std::string giga(double rate) { return rate >= 5e7 ? fmt::format("{:.1f}", rate / 1e9) : ""; }

std::string rates_words(const measure::MachineRates& rates) {
  const auto of_type = [](std::string_view name, const measure::ProductRates& rate) {
    return fmt::format("{} {:.0f} from registers, {:.0f} of a product of 2048 cubed", name, rate.registers / 1e9, rate.large / 1e9);
  };
  return fmt::format("This machine in GFLOP/s: {}; {}. A copy moves {:.1f} GB/s.\n", of_type("float32", rates.float32),
                     of_type("bfloat16", rates.bfloat16), rates.stream / 1e9);
}

void add(JsonWriter& json, const measure::MachineRates& rates) {
  json.begin_object();
  json.key("float32_registers").value(rates.float32.registers).key("float32_large_product").value(rates.float32.large);
  json.key("bfloat16_registers").value(rates.bfloat16.registers).key("bfloat16_large_product").value(rates.bfloat16.large);
  json.key("bytes_per_second").value(rates.stream).end_object();
}

}  // namespace moesh::cli
