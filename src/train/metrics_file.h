// The file that a run's metrics are written to.
#pragma once

#include <string>

#include "config/settings.h"
#include "run/audit.h"
#include "train/evaluation.h"
#include "train/line_file.h"
#include "train/trainer.h"

namespace moesh::train {

// JSON Lines: for each run a line {"run": {...}} with its date and what was set, then an object for each step, and for each evaluation one
// with the reference's names. Another
// run with the same file goes on below.
class MetricsFile {
 public:
  // `prints`: each line to the output as well.
  MetricsFile(const std::string& path, const config::Settings& settings, bool prints = false);

  // `waited_for_disk`: seconds of the step's that went to saving a checkpoint.
  void write(const StepMetrics& metrics, double seconds, double waited_for_disk = 0);
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
