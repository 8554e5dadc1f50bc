#include "forecast/host_memory.h"

#include <algorithm>

#include "forecast/schedule.h"

namespace moesh::forecast {
namespace {

// The seconds that each pass of a step takes.
struct Passes {
  double forward = 0, backward = 0, update = 0;
};

Passes passes_of(const plan::Plan& plan, const Schedule& schedule) {
  const auto backward = static_cast<std::size_t>(backward_begin(plan));
  Passes passes;
  for (std::size_t i = 0; i < plan.instructions.size(); ++i) {
    const bool is_update = plan.instructions[i].phase == graph::Phase::update;
    (is_update ? passes.update : i < backward ? passes.forward : passes.backward) += schedule.critical[i];
  }
  return passes;
}

}  // namespace

HostMemory host_memory_of(const plan::Plan& plan, const Schedule& schedule, const mesh::Chip& chip,
                          const std::vector<Offloaded>& offloaded) {
  HostMemory host;
  host.offloaded = offloaded;
  const std::vector<std::int64_t> runs = plan::runs_of(plan);
  std::int64_t saved = 0, moments = 0;
  for (const Offloaded& value : offloaded) {
    host.bytes += plan.buffer(value.buffer).bytes;
    if (value.made_by >= 0) {
      saved += value.slice_bytes * runs[static_cast<std::size_t>(value.made_by)];
    } else {
      moments += value.slice_bytes;
    }
  }
  if (host.bytes == 0 || !chip.host_bytes_per_second) return host;
  const auto way = [&](std::int64_t bytes) { return static_cast<double>(bytes) / *chip.host_bytes_per_second; };
  const auto wait = [&](std::int64_t bytes, double pass) { return std::max(0.0, way(bytes) - pass); };
  const Passes passes = passes_of(plan, schedule);
  host.seconds = way(saved + moments);
  host.waits = wait(saved, passes.forward) + wait(saved, passes.backward) + wait(moments, passes.update);
  return host;
}

}  // namespace moesh::forecast
