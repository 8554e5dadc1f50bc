// Plans how much of this machine's memory a run takes, before the run takes it.
#pragma once

#include <cstdint>

#include "base/machine_memory.h"
#include "train/program.h"

namespace moesh::train {

struct MemoryPlan {
  std::int64_t already = 0;    // held before the run: the program, its graphs and the data that it has read
  std::int64_t values = 0;     // buffers, as taken from the machine
  std::int64_t workspace = 0;  // scratch memory of kernels

  std::int64_t total() const { return already + values + workspace; }
};

// The plan of this process, once the program is made and before anything is initialized. Rows that depend on the router are planned
// at their upper bound.
MemoryPlan memory_plan(const StepProgram& program, const Footprint& footprint, std::int64_t threads);

// Refuses a plan that needs more than the machine, or the container of the process, has free.
void check_memory(const MemoryPlan& plan, const FreeMemory& free);

}  // namespace moesh::train
