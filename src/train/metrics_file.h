// The file that a run's metrics are written to.
#pragma once

#include <string>

#include "config/settings.h"
#include "train/line_file.h"
#include "train/trainer.h"

namespace moesh::train {

// JSON Lines: for each run a line {"run": {...}} with its date and what was set, then an object for each step. Another
// run with the same file goes on below.
class MetricsFile {
 public:
  explicit MetricsFile(const config::Settings& settings);

  void write(const StepMetrics& metrics, double seconds);
  const std::string& path() const { return file_.path(); }

 private:
  LineFile file_;
};

}  // namespace moesh::train
