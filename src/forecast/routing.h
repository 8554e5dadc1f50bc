// What it costs that experts are drawn by Zipf's law: rows of the busiest device, a step's time, memory, choices that
// are dropped.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "base/json.h"
#include "forecast/expert_draw.h"
#include "forecast/forecast.h"
#include "forecast/routed_rows.h"
#include "mesh/topology.h"
#include "plan/plan.h"

namespace moesh::forecast {

// A step whose routers are all of one kind.
struct RoutedStep {
  Load load;  // of a layer, or of one chunk of its tokens
  double seconds = 0;
  std::int64_t memory = 0;  // at the plan's peak with those rows that there are, as if one device were every layer's busiest
};

struct Routing {
  enum class Way : std::uint8_t {
    shared_out,  // rows to the devices of their experts
    whole,       // a device has all experts, and the rows of its tokens
    slots,       // of a fixed number for each expert
    dense        // all experts see all tokens
  };
  Way way = Way::dense;
  Draw draw;                        // of a layer, or of one chunk of its tokens
  std::int64_t room = 0;            // rows of a device, or slots of an expert for a row of the batch
  bool is_bounded = false;          // whether some routing needs more
  double busiest_expert = 1;        // of a layer, expected: its tokens by the mean of all
  std::int64_t row_bytes = 0;       // at the plan's peak, the room for rows
  std::array<RoutedStep, 3> steps;  // by Router

  const RoutedStep& step(Router router) const { return steps[static_cast<std::size_t>(router)]; }
};

// Nothing where the plan draws no experts. A step is scheduled for each kind of router.
std::optional<Routing> routing_of(const plan::Plan& plan, const mesh::Topology& target, const Forecast& forecast);

// In sentences, a line each; and with a table of what steps take.
std::string routing_words(const Routing& routing);
std::string to_text(const Routing& routing, int width);
void write(const Routing& routing, JsonWriter& json);

}  // namespace moesh::forecast
