// What waits in the host's memory within a step, and what its ways there and back take.
#pragma once

#include <cstdint>
#include <vector>

#include "mesh/hardware.h"
#include "plan/plan.h"

namespace moesh::forecast {

struct Schedule;

// A stack of what a loop's iterations save for the backward pass: each slice leaves when it is made, and comes back when it is read.
// Or a moment, which comes for its update.
struct Offloaded {
  plan::BufferId buffer = -1;
  std::int64_t slice_bytes = 0;      // that travel at once
  plan::InstructionId made_by = -1;  // what makes a slice; -1: a moment
};

// The plan with room on the device for two slices of each stack, one that is used and one on its way, and for as much of a moment while
// it is updated.
plan::Plan on_device(const plan::Plan& plan, const std::vector<Offloaded>& offloaded);

struct HostMemory {
  std::vector<Offloaded> offloaded;
  std::int64_t bytes = 0;  // of a device
  double seconds = 0;      // of each way; 0 where the chip's file does not say how fast its host is reached
  double waits = 0;        // for both, where the passes are too short
};

// The ways run beside all else, each in its own pass.
HostMemory host_memory_of(const plan::Plan& plan, const Schedule& schedule, const mesh::Chip& chip,
                          const std::vector<Offloaded>& offloaded);

}  // namespace moesh::forecast
