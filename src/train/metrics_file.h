// The file that a run's metrics are written to.
#pragma once

#include <fstream>
#include <string>

#include "config/settings.h"
#include "train/trainer.h"

namespace moesh::train {

// One JSON object a step; a line is whole or not there.
class MetricsFile {
 public:
  explicit MetricsFile(const config::Settings& settings);

  void write(const StepMetrics& metrics, double seconds);
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  std::ofstream file_;
};

}  // namespace moesh::train
