#include "forecast/timed_step.h"

#include <utility>

namespace moesh::forecast {

PlacedPlan placed(const plan::Plan& plan, const mesh::Topology& target, const std::vector<Offloaded>& offloaded) {
  Resident resident = resident_of(plan, target.chip, offloaded);
  plan::Arena arena = plan::device_arena(resident.plan);
  return {plan, cost::Network(plan.mesh, target), std::move(resident), std::move(arena)};
}

TimedStep timed(const PlacedPlan& placed, const RoutedRows& rows) {
  std::vector<Timing> timings = timings_of(placed.plan, placed.network, rows);
  Schedule schedule = schedule_of(placed.plan, placed.arena, timings);
  return {std::move(timings), std::move(schedule)};
}

}  // namespace moesh::forecast
