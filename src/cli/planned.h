// A request planned as a training step, and what that step will take.
#pragma once

#include <string>
#include <vector>

#include "forecast/forecast.h"
#include "session/session.h"
#include "train/program.h"

namespace moesh::cli {

struct Planned {
  session::Session session;
  train::StepProgram program;
  forecast::Forecast forecast;
};

Planned plan_step(const std::vector<std::string>& request);

// A change of a request, and the memory that a device then needs at the peak.
struct Change {
  std::vector<std::string> keys;  // "remat_policy=full"
  std::int64_t peak = 0;
  bool fits = false;
};

// What is worth trying where a step does not fit: each planned, the least change first. Those that cannot be planned
// are left out.
std::vector<Change> changes_to_fit(const std::vector<std::string>& request, const Planned& planned);

}  // namespace moesh::cli
