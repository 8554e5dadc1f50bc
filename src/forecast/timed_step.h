// A plan on the devices of a machine, and what its step takes there.
#pragma once

#include <vector>

#include "cost/network.h"
#include "forecast/resident.h"
#include "forecast/routed_rows.h"
#include "forecast/schedule.h"
#include "forecast/timing.h"
#include "plan/arena.h"

namespace moesh::forecast {

struct PlacedPlan {
  const plan::Plan& plan;
  cost::Network network;
  Resident resident;
  plan::Arena arena;  // of what is resident
};

// Plan and target must outlive the result.
PlacedPlan placed(const plan::Plan& plan, const mesh::Topology& target, const std::vector<Offloaded>& offloaded);

struct TimedStep {
  std::vector<Timing> timings;  // by instruction
  Schedule schedule;
};

TimedStep timed(const PlacedPlan& placed, const RoutedRows& rows);

}  // namespace moesh::forecast
