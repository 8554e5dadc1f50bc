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
  void end_step(std::int64_t step);
  // Writes the file. Returns a line that says what was traced and where it is, or why nothing was.
  std::string finish() const;

 private:
  using Clock = std::chrono::steady_clock;

  bool traces(std::int64_t step) const { return step >= first_ && step < end_; }

  std::int64_t first_, end_;  // the range of steps that are traced
  std::string path_;
  std::vector<forecast::Timing> timings_;
  measure::Trace trace_;
  std::vector<run::Span> spans_;
  Clock::time_point origin_, begin_;
  std::int64_t traced_ = 0;
};

}  // namespace moesh::train
