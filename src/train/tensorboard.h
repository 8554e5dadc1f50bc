// Writes a run's metrics for TensorBoard: curves under the reference's names, and how the experts are used.
#pragma once

#include <string>

#include "config/settings.h"
#include "store/event_file.h"
#include "train/evaluation.h"
#include "train/run_words.h"
#include "train/trainer.h"

namespace moesh::train {

class TensorBoard {
 public:
  // Writes into `folder`. What earlier runs there wrote for `first_step` and later steps is no longer shown.
  TensorBoard(const std::string& folder, std::int64_t first_step, std::int64_t parameters, const config::Settings& settings);

  void write(const StepMetrics& metrics, const StepSpeed& speed);
  void write(const EvalMetrics& metrics);

 private:
  void add(const store::ProtobufWriter& summary, std::int64_t step);

  store::EventFile file_;
  bool is_given_up_ = false;  // after a write has failed
};

}  // namespace moesh::train
