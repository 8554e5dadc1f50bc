// The file that a run's metrics are written to.
#pragma once

#include <string>

#include "config/settings.h"
#include "run/audit.h"
#include "train/evaluation.h"
#include "train/line_file.h"
#include "train/trainer.h"

namespace moesh::train {

// Seconds of a step, and those of them that it waited.
struct StepTime {
  double all = 0;
  double for_data = 0;
  double for_disk = 0;  // to save a checkpoint
};

// JSON Lines: for each run a line {"run": {...}} with its date and what was set, then an object for each step, and for each evaluation one
// with the reference's names. Another run with the same file goes on below.
class MetricsFile {
 public:
  // `prints`: each line to the output as well.
  MetricsFile(const std::string& path, const config::Settings& settings, bool prints = false);

  void write(const StepMetrics& metrics, const StepTime& time, std::int64_t lines_left_out = 0);
  void write(const EvalMetrics& metrics);
  // The last line of a run: {"run": {"ended": ...}}, with what it held and exchanged beside its plan.
  void end(const run::Audit& audit);
  const std::string& path() const { return file_.path(); }

 private:
  void append(const std::string& line);

  LineFile file_;
  bool prints_;
};

}  // namespace moesh::train
