// A plan as JSON, for scripts.
#pragma once

#include <string>

#include "plan/plan.h"

namespace moesh::plan {

// {"mesh", "state_bytes", "peak_bytes", "ports": [...], "instructions": [...], "buffers": [...]}, one entry per line. Operands and
// results are views: {"buffer", "dtype", "shape", "spec"} and those of their other fields that are not at their defaults.
std::string to_json(const Plan& plan);

}  // namespace moesh::plan
