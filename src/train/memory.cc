#include "train/memory.h"

#include <fmt/core.h>

#include "backend/workspace.h"
#include "base/error.h"
#include "base/text.h"

namespace moesh::train {

MemoryPlan memory_plan(const StepProgram& program, const Footprint& footprint, std::int64_t threads) {
  return {resident_memory(), footprint.process, backend::workspace_of(program.graph, program.mesh, threads)};
}

void check_memory(const MemoryPlan& plan, const FreeMemory& free) {
  const std::int64_t needed = plan.values + plan.workspace;
  if (free.where.empty() || needed < free.bytes) return;
  refuse(fmt::format("{} of memory are needed at the peak, {} are free", human_bytes(needed),
                     human_bytes(free.bytes)),
         free.where, "a smaller model, a smaller per_device_batch_size or a shorter max_target_length");
}

}  // namespace moesh::train
