#include "forecast/compare.h"

#include <map>

#include <fmt/core.h>

#include "base/table.h"
#include "base/text.h"
#include "forecast/report.h"

namespace moesh::forecast {
namespace {

std::string times(double before, double after) { return before > 0 ? fmt::format("x {:.2f}", after / before) : ""; }

std::string tokens_words(const Forecast& f) {
  return with_commas(static_cast<std::int64_t>(f.tokens_per_second_per_device));
}

std::string main_table(const Forecast& before, const Forecast& after, int width) {
  Table table({{""}, {"before", true}, {"after", true}, {"", true}});
  const auto seconds = [&](const char* what, double a, double b) {
    table.add({what, seconds_words(a), seconds_words(b), times(a, b)});
  };
  const auto bytes = [&](const std::string& what, std::int64_t a, std::int64_t b) {
    table.add({what, human_bytes(static_cast<double>(a)), human_bytes(static_cast<double>(b)),
               times(static_cast<double>(a), static_cast<double>(b))});
  };
  seconds("a step", before.seconds, after.seconds);
  seconds("  kernels", before.kernels, after.kernels);
  seconds("  exposed communication", before.exposed, after.exposed);
  table.add({"tokens/s a device", tokens_words(before), tokens_words(after),
             times(before.tokens_per_second_per_device, after.tokens_per_second_per_device)});
  const double a = before.busiest_rows, b = after.busiest_rows;
  if (a > 1 || b > 1) table.add({"busiest device, rows by the mean", fmt::format("{:.2f}", a), fmt::format("{:.2f}", b), times(a, b)});
  bytes("memory at the peak", before.memory.peak, after.memory.peak);
  for (int c = 0; c < kComponents; ++c) {
    const auto at = static_cast<std::size_t>(c);
    const std::int64_t x = before.memory.components[at], y = after.memory.components[at];
    if (x != 0 || y != 0) bytes(fmt::format("  {}", name_of(static_cast<Component>(c))), x, y);
  }
  table.add({"it fits", before.fits() ? "yes" : "no", after.fits() ? "yes" : "no", ""});
  return table.text(width);
}

struct Total {
  std::int64_t count = 0;
  double sent = 0, seconds = 0;

  bool operator==(const Total& other) const { return count == other.count && sent == other.sent; }
};

using Totals = std::map<std::pair<std::string, std::string>, Total>;  // by kind and axes

void add(Total& total, const Sent& sent) {
  total.count += sent.what.runs;
  total.sent += sent.what.total_wire_bytes();
  total.seconds += sent.seconds;
}

Totals totals_of(const Forecast& f) {
  Totals totals;
  for (const Sent& sent : f.collectives) add(totals[{sent.kind, sent.axes}], sent);
  return totals;
}

Total sum(const Totals& totals) {
  Total all;
  for (const auto& [key, total] : totals) {
    all.count += total.count;
    all.sent += total.sent;
    all.seconds += total.seconds;
  }
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
  const auto row = [&](const std::string& kind, const std::string& axes, const Total& x, const Total& y) {
    table.add({kind, axes, with_commas(x.count), with_commas(y.count), human_bytes(x.sent), human_bytes(y.sent),
               seconds_words(x.seconds), seconds_words(y.seconds)});
  };
  bool any = false;
  for (const auto& [key, unused] : keys) {
    const Total x = a.contains(key) ? a.at(key) : Total{}, y = b.contains(key) ? b.at(key) : Total{};
    if (x == y) continue;
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
