// Values that wait in the host's memory during a step, and the time that their transfers take.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "mesh/hardware.h"
#include "plan/plan.h"

namespace moesh::forecast {

struct Schedule;

// An offloaded value: either a stack of what a loop's iterations save for the backward pass, each slice of which leaves when it is made
// and comes back when it is read; or a moment of the optimizer, which comes for its update.
struct Offloaded {
  plan::BufferId buffer = -1;
  std::int64_t slice_bytes = 0;      // transferred at a time
  plan::InstructionId made_by = -1;  // the instruction that makes a slice; -1: the value is a moment
};

struct HostMemory {
  std::vector<Offloaded> offloaded;
  std::int64_t bytes = 0;         // per device
  std::optional<double> seconds;  // of the transfers in one direction, if the chip's file says how fast its host is reached
  double waits = 0;               // for the transfers of both directions, if the passes are too short to hide them
};

// Transfers run beside everything else, each within one pass: stacks leave in the forward pass and come back in the backward pass, moments
// travel during the update.
HostMemory host_memory_of(const plan::Plan& plan, const Schedule& schedule, const mesh::Chip& chip,
                          const std::vector<Offloaded>& offloaded);

}  // namespace moesh::forecast
