#include "forecast/routing.h"

#include <algorithm>
#include <cmath>

#include <fmt/core.h>

#include "base/table.h"
#include "base/text.h"
#include "forecast/report.h"
#include "forecast/timed_step.h"

namespace moesh::forecast {
namespace {

using plan::Instruction;
using plan::Plan;
using Way = Routing::Way;

constexpr std::array kRouters{Router::even, Router::drawn, Router::hottest_together};

const Instruction* first_of(const Plan& plan, graph::Op op) {
  const auto found = std::find_if(plan.instructions.begin(), plan.instructions.end(), [&](const Instruction& i) {
    return i.kind == Instruction::Kind::kernel && i.op == op;
  });
  return found == plan.instructions.end() ? nullptr : &*found;
}

// The draw of the whole batch from all experts, as if they were on one device.
Draw draw_of_step(const Plan& plan, const Instruction& top_k, const graph::DrawOf& law) {
  const Shape& ids = plan.view(top_k.results[1]).shape;
  return {ids[0] * ids[1], std::get<graph::TopKOf>(top_k.attributes).k, law.experts, 1, 1, law.skew};
}

std::size_t place_of(Router router) { return static_cast<std::size_t>(router); }

void see_slots(const Plan& plan, const Instruction& slots, Routing& routing) {
  const std::int64_t tokens = plan.view(slots.operands[0]).shape[1];
  routing.way = Way::slots;
  routing.room = std::get<graph::SlotMaskOf>(slots.attributes).capacity;
  routing.is_bounded = routing.room < tokens;
  const double in_slots = static_cast<double>(routing.room * routing.draw.experts) / static_cast<double>(tokens * routing.draw.choices);
  routing.steps[place_of(Router::even)].load.dropped = std::max(0.0, 1 - in_slots);
  for (const Router router : {Router::drawn, Router::hottest_together})
    routing.steps[place_of(router)].load.dropped = share_beyond_slots(routing.draw, tokens, routing.room);
}

void see_way(const Plan& plan, const RoutedRows& drawn, Routing& routing) {
  if (!drawn.counted().empty()) {
    const Counted& first = drawn.counted().front();
    routing.way = Way::shared_out;
    routing.draw = first.draw;
    routing.room = first.room;
    routing.is_bounded = first.is_bounded;
  } else if (const Instruction* slots = first_of(plan, graph::Op::slots)) {
    see_slots(plan, *slots, routing);
  } else if (first_of(plan, graph::Op::sort_slots) != nullptr) {
    routing.way = Way::whole;
  }
}

bool is_of_rows(const Plan& plan, const Held& held) { return held.view >= 0 && plan.view(held.view).rows >= 0; }

std::int64_t filled(const Plan& plan, const Memory& memory, const RoutedRows& rows) {
  double empty = 0;
  for (const Held& held : memory.held) {
    if (!is_of_rows(plan, held)) continue;
    const plan::View& view = plan.view(held.view);
    const double share = static_cast<double>(rows.shape(view)[0]) / static_cast<double>(view.shape[0]);
    empty += static_cast<double>(held.bytes) * (1 - share);
  }
  return memory.peak - static_cast<std::int64_t>(empty);
}

std::string exact_percent(double share) {
  return share > 0 && share < 0.001 ? "< 0.1%" : fmt::format("{:.1f}%", 100 * share);
}

std::string heading(const Routing& r) {
  const Draw& draw = r.draw;
  const std::string by = draw.skew > 0 ? fmt::format("by Zipf's law with skew {:g}", draw.skew) : "evenly";
  return fmt::format("Experts are drawn {}, {} of {} a token; the busiest of a layer is expected to have {:.2f} times the mean.\n", by,
                     draw.choices, draw.experts, r.busiest_expert);
}

std::string way_words(const Routing& r) {
  const Draw& draw = r.draw;
  switch (r.way) {
    case Way::whole:
      return "Each device has all experts and the rows of its own tokens: none has more than another, none is "
             "dropped.\n";
    case Way::dense:
      return "Every expert sees every token: no device has more to do than another, no choice is dropped.\n";
    case Way::slots:
      return fmt::format(
          "Each expert has {} for a row of the batch, filled or not: the time is that of an even router. Choices beyond "
          "them are dropped, {} of all.\n",
          counted(r.room, "slot"), exact_percent(r.step(Router::drawn).load.dropped));
    case Way::shared_out: break;
  }
  const std::string groups = draw.groups > 1 ? "In each of " + counted(draw.groups, "group") + " " : "";
  const std::string lie = fmt::format("{}{}, which have the experts in random order, get {} of {} at a time.\n", groups,
                                      counted(draw.devices, "device"), counted(draw.tokens * draw.choices, "choice"),
                                      counted(draw.tokens, "token"));
  const std::string room = fmt::format("A device has room for {}", counted(r.room, "row"));
  if (!r.is_bounded) return lie + room + ", all that could come: nothing is dropped.\n";
  const RoutedStep& drawn = r.step(Router::drawn);
  return lie +
         fmt::format(
             "{} (ragged_buffer_factor). In {} of layers more come to some device, and what comes later is dropped; "
             "ragged_buffer_factor={:.2f} has room for all in 99 of 100.\n",
             room, exact_percent(drawn.load.overflows), std::ceil(100 * drawn.load.almost_always) / 100);
}

std::string table_of(const Routing& r, int width) {
  const bool is_skewed = r.draw.skew > 0;
  std::vector<Column> columns{{""}, {"even router", true}, {"expected maximum", true}};
  if (is_skewed) columns.push_back({"hottest together", true, Room::none, 1});
  Table table(columns);
  const auto row = [&](const std::string& what, auto words) {
    std::vector<std::string> cells{what};
    for (const Router router : kRouters) {
      if (is_skewed || router != Router::hottest_together) cells.push_back(words(r.step(router)));
    }
    table.add(std::move(cells));
  };
  row("rows of the busiest device",
      [&](const RoutedStep& s) { return with_commas(std::llround(s.load.busiest * r.draw.mean_rows())); });
  row("  by the mean", [](const RoutedStep& s) { return fmt::format("{:.2f}", s.load.busiest); });
  row("choices dropped", [](const RoutedStep& s) { return exact_percent(s.load.dropped); });
  row("a step", [](const RoutedStep& s) { return human_seconds(s.seconds); });
  const auto memory = [](const RoutedStep& s) { return human_bytes(s.memory); };
  if (r.row_bytes > 0) row("its memory at the peak, filled", memory);
  return table.text(width);
}

std::string_view name_of(Router router) {
  switch (router) {
    case Router::even: return "even_router";
    case Router::drawn: return "expected_maximum";
    case Router::hottest_together: return "hottest_together";
  }
  return "";
}

std::string_view name_of(Way way) {
  switch (way) {
    case Way::shared_out: return "shared_out";
    case Way::whole: return "whole";
    case Way::slots: return "slots";
    case Way::dense: return "dense";
  }
  return "";
}

}  // namespace

std::optional<Routing> routing_of(const Plan& plan, const mesh::Topology& target, const Forecast& forecast) {
  const std::optional<graph::DrawOf> law = law_of(plan);
  const Instruction* top_k = first_of(plan, graph::Op::top_k);
  if (!law || top_k == nullptr) return std::nullopt;
  Routing routing;
  routing.draw = draw_of_step(plan, *top_k, *law);
  Draw expert = routing.draw;
  expert.devices = law->experts;
  routing.busiest_expert = load_of(expert, ExpertOrder::by_rank).busiest;
  see_way(plan, RoutedRows(plan, Router::drawn), routing);
  for (const Held& held : forecast.memory.held) routing.row_bytes += is_of_rows(plan, held) ? held.bytes : 0;
  const PlacedPlan on_devices = placed(plan, target, forecast.host.offloaded);
  for (const Router router : kRouters) {
    const RoutedRows rows(plan, router);
    RoutedStep& step = routing.steps[place_of(router)];
    if (!rows.counted().empty()) step.load = rows.counted().front().load;
    step.seconds = timed(on_devices, rows).schedule.seconds + forecast.host.waits;
    step.memory = filled(plan, forecast.memory, rows);
  }
  return routing;
}

std::string routing_words(const Routing& routing) { return heading(routing) + way_words(routing); }

std::string to_text(const Routing& routing, int width) {
  const std::string words = wrapped(routing_words(routing), width, 2);
  return routing.way == Way::shared_out ? words + table_of(routing, width) : words;
}

void write(const Routing& r, JsonWriter& json) {
  const Draw& draw = r.draw;
  json.begin_object().key("skew").value(draw.skew).key("way").value(name_of(r.way)).key("experts").value(draw.experts);
  json.key("experts_per_token").value(draw.choices).key("busiest_expert").value(r.busiest_expert);
  json.key("tokens").value(draw.tokens).key("devices").value(draw.devices).key("groups").value(draw.groups);
  json.key("mean_rows").value(draw.mean_rows()).key("room").value(r.room).key("bounded").value(r.is_bounded);
  json.key("row_bytes_at_the_peak").value(r.row_bytes);
  for (const Router router : kRouters) {
    const RoutedStep& s = r.step(router);
    json.line()
        .key(name_of(router))
        .begin_object()
        .key("busiest_by_mean")
        .value(s.load.busiest)
        .key("in_99_of_100")
        .value(s.load.almost_always);
    json.key("overflows")
        .value(s.load.overflows)
        .key("dropped")
        .value(s.load.dropped)
        .key("seconds_per_step")
        .value(s.seconds);
    json.key("memory_filled").value(s.memory).end_object();
  }
  json.line().end_object();
}

}  // namespace moesh::forecast
