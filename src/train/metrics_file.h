// The file that a run's metrics are written to.
#pragma once

#include <string>

#include "config/settings.h"
#include "run/audit.h"
#include "train/evaluation.h"
#include "train/line_file.h"
#include "train/run_words.h"
#include "train/trainer.h"

namespace moesh::train {

// The seconds of a step, and how many of them it waited.
struct StepTime {
  double all = 0;
  double for_data = 0;
  double for_disk = 0;  // waiting for a checkpoint to be saved
};

// JSON Lines: for each run a line {"run": {...}} with its date, layout and settings, then an object per step and per evaluation, with the
// reference's names. Another run with the same file appends its own lines.
class MetricsFile {
 public:
  // `prints`: whether each line is printed as well.
  explicit MetricsFile(const std::string& path, bool prints = false);

  // Writes the line before a run's steps. `layout`: the run's model, machine and mesh, in words.
  void begin(const config::Settings& settings, const std::string& layout = {});
  void write(const StepMetrics& metrics, const StepTime& time, const StepSpeed& speed, std::int64_t lines_left_out = 0);
  void write(const EvalMetrics& metrics);
  // Writes the last line of a run: {"run": {"ended": ...}}, with its memory and collectives, as measured and as planned.
  void end(const run::Audit& audit);
  const std::string& path() const { return file_.path(); }

 private:
  void append(const std::string& line);

  LineFile file_;
  bool prints_;
};

}  // namespace moesh::train
