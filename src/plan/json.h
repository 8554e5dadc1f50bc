// A plan as JSON, for scripts.
#pragma once

#include <string>

#include "plan/plan.h"

namespace moesh::plan {

// {"mesh", "state_bytes", "peak_bytes", "ports": [...], "instructions": [...], "buffers": [...]}, an entry a line. What an
// instruction reads and makes is told with its place: {"buffer", "dtype", "shape", "spec"} and what else is not at its default.
std::string to_json(const Plan& plan);

}  // namespace moesh::plan
