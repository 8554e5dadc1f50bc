// Runs as one HTML page that needs no other file: figures, curves, how the experts were used, and each run beside its plan.
#pragma once

#include <string>
#include <vector>

#include "train/run_record.h"

namespace moesh::train {

// Reads the metrics files again to see how the experts were used.
std::string report_of(const std::vector<RunRecord>& runs);

}  // namespace moesh::train
