// The cost of drawing experts by Zipf's law: rows of the busiest device, time and memory of a step, and dropped choices.
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

// The figures of a step whose routers are all of one kind.
struct RoutedStep {
  Load load;  // of a layer, or of one chunk of its tokens
  double seconds = 0;
  std::int64_t memory = 0;  // at the plan's peak, counting only filled rows, as if one device were the busiest in every layer
};

struct Routing {
  enum class Way : std::uint8_t {
    shared_out,  // rows go to the devices of their experts
    whole,       // each device has all experts, and the rows of its own tokens
    slots,       // each expert has a fixed number of capacity slots
    dense        // all experts see all tokens
  };
  Way way = Way::dense;
  Draw draw;                        // of a layer, or of one chunk of its tokens
  std::int64_t room = 0;            // rows per device, or slots per expert and batch row
  bool is_bounded = false;          // whether some routing needs more
  double busiest_expert = 1;        // the expected tokens of a layer's busiest expert, relative to the mean
  std::int64_t row_bytes = 0;       // at the plan's peak: the memory with room for routed rows
  std::array<RoutedStep, 3> steps;  // by Router

  const RoutedStep& step(Router router) const { return steps[static_cast<std::size_t>(router)]; }
};

// Nothing if the plan does not draw experts at random. A step is scheduled for each kind of router.
std::optional<Routing> routing_of(const plan::Plan& plan, const mesh::Topology& target, const Forecast& forecast);

// routing_words gives sentences, one per line. If rows are shared out among devices, to_text adds a table of what steps take.
std::string routing_words(const Routing& routing);
std::string to_text(const Routing& routing, int width);
void write(const Routing& routing, JsonWriter& json);

}  // namespace moesh::forecast
