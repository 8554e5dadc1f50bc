#include "forecast/compare.h"

#include <algorithm>
#include <cmath>
#include <map>

#include <fmt/core.h>

#include "base/table.h"
#include "base/text.h"
#include "forecast/report.h"

namespace moesh::forecast {
namespace {

// Nothing where there was next to nothing before.
std::string times(double before, double after) {
  constexpr double kMost = 1000;
  return before > 0 && after < kMost * before ? fmt::format("x {:.2f}", after / before) : "";
}

bool is_close(double a, double b) { return std::abs(a - b) <= 1e-6 * std::max(a, b); }

// Rows and their KV cache, if both decode.
void add_decoding(const Forecast& before, const Forecast& after, Table& table) {
  if (!before.decoding || !after.decoding) return;
  const Decoding &a = *before.decoding, &b = *after.decoding;
  table.add({"rows", with_commas(a.rows), with_commas(b.rows), times(static_cast<double>(a.rows), static_cast<double>(b.rows))});
  if (!a.most || !b.most) return;
  table.add({"rows that fit", most_rows_words(a), most_rows_words(b),
             times(static_cast<double>(a.most->rows), static_cast<double>(b.most->rows))});
}

std::string main_table(const Forecast& before, const Forecast& after, int width) {
  Table table({{""}, {"before", true}, {"after", true}, {"", true}});
  const auto seconds = [&](const char* what, double a, double b) {
    table.add({what, human_seconds(a), human_seconds(b), times(a, b)});
  };
  const auto bytes = [&](const std::string& what, std::int64_t a, std::int64_t b) {
    table.add({what, human_bytes(a), human_bytes(b),
               times(static_cast<double>(a), static_cast<double>(b))});
  };
  seconds(step_words(before).c_str(), before.seconds, after.seconds);
  seconds("  kernels", before.kernels, after.kernels);
  seconds("  exposed communication", before.exposed, after.exposed);
  if (before.host.waits > 0 || after.host.waits > 0) seconds("  waits for the host", before.host.waits, after.host.waits);
  table.add({"tokens/s a device", rate_words(before.tokens_per_second_per_device), rate_words(after.tokens_per_second_per_device),
             times(before.tokens_per_second_per_device, after.tokens_per_second_per_device)});
  const double a = before.busiest_rows, b = after.busiest_rows;
  if (a > 1 || b > 1) table.add({"busiest device, rows by the mean", fmt::format("{:.2f}", a), fmt::format("{:.2f}", b), times(a, b)});
  bytes("memory at the peak", before.memory.peak, after.memory.peak);
  for (int c = 0; c < kComponents; ++c) {
    const auto at = static_cast<std::size_t>(c);
    const std::int64_t x = before.memory.components[at], y = after.memory.components[at];
    if (x != 0 || y != 0) bytes(fmt::format("  {}", name_of(static_cast<Component>(c))), x, y);
  }
  if (before.host.bytes > 0 || after.host.bytes > 0) bytes("in the host's memory", before.host.bytes, after.host.bytes);
  add_decoding(before, after, table);
  const auto reduced = [](const Forecast& f) { return f.reduces_once ? "once" : "in each pass"; };
  if (before.reduces_once != after.reduces_once) table.add({"gradients are reduced", reduced(before), reduced(after), ""});
  const auto fits = [](const Forecast& f) { return f.fits_narrowly() ? "narrowly" : f.fits() ? "yes" : "no"; };
  table.add({"it fits", fits(before), fits(after), ""});
  return table.text(width);
}

using Totals = std::map<std::pair<std::string, std::string>, SentTotal>;  // the key: kind and axes

Totals totals_of(const Forecast& f) {
  Totals totals;
  for (const Sent& sent : f.collectives) totals[{sent.kind, sent.axes}].add(sent);
  return totals;
}

SentTotal sum(const Totals& totals) {
  SentTotal all;
  for (const auto& [key, total] : totals) all.add(total);
  return all;
}

std::string collective_table(const Forecast& before, const Forecast& after, int width) {
  const Totals a = totals_of(before), b = totals_of(after);
  Totals keys = a;
  keys.insert(b.begin(), b.end());
  Table table({{"collectives that differ"},
               {"axes"},
               {"count", true, Room::none, 2},
               {"after", true, Room::none, 2},
               {"sent", true},
               {"after", true},
               {"time", true, Room::none, 1},
               {"after", true, Room::none, 1}});
  const auto row = [&](const std::string& kind, const std::string& axes, const SentTotal& x, const SentTotal& y) {
    table.add({kind, axes, with_commas(x.runs), with_commas(y.runs), human_bytes(x.wire_bytes), human_bytes(y.wire_bytes),
               human_seconds(x.seconds), human_seconds(y.seconds)});
  };
  bool any = false;
  for (const auto& [key, unused] : keys) {
    const SentTotal x = a.contains(key) ? a.at(key) : SentTotal{}, y = b.contains(key) ? b.at(key) : SentTotal{};
    if (x.runs == y.runs && x.wire_bytes == y.wire_bytes && is_close(x.seconds, y.seconds)) continue;
    any = true;
    row(key.first, key.second, x, y);
  }
  if (!any) return "Collectives are the same.\n";
  row("all", "", sum(a), sum(b));
  return table.text(width);
}

}  // namespace

std::string compare(const Forecast& before, const Forecast& after, int width) {
  return main_table(before, after, width) + "\n" + collective_table(before, after, width);
}

}  // namespace moesh::forecast
