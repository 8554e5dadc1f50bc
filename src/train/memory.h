// What a run takes of this machine's memory, known before it takes it.
#pragma once

#include <cstdint>

#include "base/machine_memory.h"
#include "train/program.h"

namespace moesh::train {

struct MemoryPlan {
  std::int64_t already = 0;    // the program itself, its graphs and the data that it has read
  std::int64_t values = 0;     // buffers, as they are taken from the machine
  std::int64_t workspace = 0;  // of kernels

  std::int64_t total() const { return already + values + workspace; }
};

// Of this process, as it stands with the program made and nothing initialized. Rows that depend on the router are planned at
// their bound.
MemoryPlan memory_plan(const StepProgram& program, const Footprint& footprint, std::int64_t threads);

// Refuses what the machine, or the container that the process is in, has not got.
void check_memory(const MemoryPlan& plan, const FreeMemory& free);

}  // namespace moesh::train
