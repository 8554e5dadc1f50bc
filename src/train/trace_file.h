// The trace that a run writes if profiler= asks for one.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "config/settings.h"
#include "measure/trace.h"
#include "mesh/topology.h"

namespace moesh::train {

class TraceFile {
 public:
  // `metrics_path`: the trace is written beside this file. `first`: the first step of this run, which may go on from a checkpoint; the
  // steps that are left out count from it. Refuses to replace a file that is not a trace written by moesh.
  TraceFile(const config::Settings& settings, const std::string& metrics_path, const plan::Plan& plan, const mesh::Topology& target,
            std::int64_t first);

  // The spans that step `step` of this run fills in; null if it is not traced.
  std::vector<run::Span>* begin_step(std::int64_t step);
  // Writes the file after the last step that is traced, as the run may go on for long, and end by a signal or a failure.
  void end_step(std::int64_t step);
  // Writes the file if that is still to be done. Returns a line that says what was traced and where it is, or why nothing was.
  std::string finish();
  // The same for a run that fails, whose own error is the one to be told.
  void finish_failed() noexcept;

 private:
  using Clock = std::chrono::steady_clock;

  bool traces(std::int64_t step) const { return step >= first_ && step < end_; }
  void write();

  std::int64_t first_, end_;  // the range of steps that are traced
  std::string path_;
  std::vector<forecast::Timing> timings_;
  measure::Trace trace_;
  std::vector<run::Span> spans_;
  Clock::time_point origin_, begin_;
  std::int64_t traced_ = 0;
  bool is_written_ = false;
};

}  // namespace moesh::train
