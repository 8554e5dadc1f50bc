#include "cli/times_words.h"

#include <fmt/core.h>

#include "base/table.h"
#include "base/text.h"
#include "cli/rates_words.h"

namespace moesh::cli {

std::string times_words(std::span<const measure::KindTime> times, double seconds, int width) {
  Table table({{"instructions", false, Room::cut},
               {"runs", true, Room::none, 3},
               {"ms a step", true},
               {"share", true},
               {"GFLOP/s", true},
               {"GB/s", true, Room::none, 2},
               {"planned ms", true, Room::none, 4}});
  double sum = 0;
  for (const measure::KindTime& time : times) {
    sum += time.seconds;
    table.add({time.kind, with_commas(time.runs), fmt::format("{:.2f}", time.seconds * 1e3),
               fmt::format("{:.1f}%", 100 * time.seconds / seconds), giga(time.flops / time.seconds), giga(time.bytes / time.seconds),
               fmt::format("{:.2f}", time.planned * 1e3)});
  }
  table.add({"between instructions", "", fmt::format("{:.2f}", (seconds - sum) * 1e3),
             fmt::format("{:.1f}%", 100 * (seconds - sum) / seconds), "", "", ""});
  return table.text(width);
}

void add(JsonWriter& json, std::span<const measure::KindTime> times) {
  json.begin_array();
  for (const measure::KindTime& time : times) {
    json.line().begin_object().key("kind").value(time.kind).key("runs").value(time.runs).key("seconds").value(time.seconds);
    json.key("flops").value(time.flops).key("bytes").value(time.bytes).key("planned_seconds").value(time.planned).end_object();
  }
  json.line().end_array();
}

page::Bars bars_of(std::span<const measure::KindTime> times, double seconds, const std::string& title) {
  page::Bars made{title, "ms a step", "ms planned, on the hardware that the plan is made for", {}};
  for (const measure::KindTime& time : times) {
    made.bars.push_back(
        {time.kind, time.seconds, time.planned, fmt::format("{:.2f} ms, {:.1f}%", time.seconds * 1e3, 100 * time.seconds / seconds)});
  }
  return made;
}

}  // namespace moesh::cli
