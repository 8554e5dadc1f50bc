// What a run prints: its header, a line per step, and the summary.
#pragma once

#include <string>

#include "backend/workers.h"
#include "run/audit.h"
#include "train/evaluation.h"
#include "train/loop.h"
#include "train/model_size.h"

namespace moesh::train {

// The header: all that is known before the step is planned.
std::string header_words(const TrainRequest& request, const ModelSize& size, const std::string& data, const backend::Workers& workers);

// The memory that is needed at the peak, which is known once the step is planned.
std::string peak_words(const Footprint& footprint, std::int64_t of_process);

struct StepSpeed {
  double seconds = 0;
  double flops = 0;   // per device
  double tokens = 0;  // per device
  double devices = 1;
};

// The reference's line of a step, which scripts read.
std::string step_line(const StepMetrics& metrics, const StepSpeed& speed, bool is_moe);
// A line of a step for people, in at most `columns` columns.
std::string short_step_line(const StepMetrics& metrics, const StepSpeed& speed, std::int64_t steps, int columns);

// The reference's line of an evaluation.
std::string eval_line(const EvalMetrics& metrics, const config::Settings& settings);

struct RunSummary {
  std::int64_t steps = 0;
  bool interrupted = false;
  bool reached_target = false;  // an evaluation reached target_eval_loss
  std::int64_t evaluations = 0;
  double seconds = 0;
  double waited_for_data = 0;  // the part of `seconds` that steps waited
  std::int64_t updates_left_out = 0;  // because a loss or gradient was not finite, or a spike
  std::int64_t lines_left_out = 0;  // lines of the data that could not be read
  double tokens = 0;  // in all steps
  double first_loss = 0;
  double last_loss = 0;
  std::int64_t peak_bytes = 0;
  ExpertLoad load = {};           // of the last step
  double planned_in_regions = 0;  // bytes per device, with an even router
};
std::string summary_words(const RunSummary& run);

// A line for each collective of the plan: how often it ran and what it moved, beside what was planned.
std::string audit_words(const run::Audit& audit, int columns);

}  // namespace moesh::train
