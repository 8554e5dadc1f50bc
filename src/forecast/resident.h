// The memory that a plan's buffers take on a device.
#pragma once

#include "forecast/host_memory.h"

namespace moesh::forecast {

struct Resident {
  plan::Plan plan;                    // with the bytes that its buffers take
  std::vector<std::int64_t> padding;  // by buffer: the part of these bytes that only fills tiles of the chip's memory
};

// Of each offloaded value only two slices are on the device, one in use and one in transfer: of a stack while it is live, of a moment while
// it is updated.
Resident resident_of(const plan::Plan& plan, const mesh::Chip& chip, const std::vector<Offloaded>& offloaded);

}  // namespace moesh::forecast
