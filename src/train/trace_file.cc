#include "train/trace_file.h"

#include <exception>
#include <filesystem>
#include <fstream>

#include <fmt/core.h>

#include "base/error.h"
#include "base/whole_file.h"

namespace moesh::train {
namespace {

std::string path_beside(const std::string& metrics_path) {
  return std::filesystem::path(metrics_path).replace_extension(".trace.json").string();
}

void check_place(const std::string& path) {
  std::ifstream file(path);
  if (!file) return;
  std::string start(measure::Trace::kSignature.size(), ' ');
  file.read(start.data(), static_cast<std::streamsize>(start.size()));
  if (file && start == measure::Trace::kSignature) return;
  refuse("this file is no trace of moesh's, so it is not overwritten", path, "move it, or name another metrics_file");
}

}  // namespace

TraceFile::TraceFile(const config::Settings& settings, const std::string& metrics_path, const plan::Plan& plan,
                     const mesh::Topology& target, std::int64_t first)
    : first_(first + settings.integer("skip_first_n_steps_for_profiler")),
      end_(first_ + settings.integer("profiler_steps")),
      path_(path_beside(metrics_path)),
      timings_(forecast::timings_of(plan, cost::Network(plan.mesh, target))),
      trace_(plan, timings_, target.name) {
  check_place(path_);
}

std::vector<run::Span>* TraceFile::begin_step(std::int64_t step) {
  if (!traces(step)) return nullptr;
  begin_ = Clock::now();
  if (step == first_) origin_ = begin_;
  spans_.clear();
  return &spans_;
}

void TraceFile::end_step(std::int64_t step) {
  if (!traces(step)) return;
  trace_.add(step, std::chrono::duration<double>(begin_ - origin_).count(), spans_);
  ++traced_;
  if (step + 1 == end_) write();
}

void TraceFile::write() {
  if (traced_ == 0 || is_written_) return;
  replace_file(path_, trace_.text(), "name another base_output_directory or metrics_file");
  is_written_ = true;
}

void TraceFile::finish_failed() noexcept {
  try {
    write();
  } catch (const std::exception&) {  // that the trace is missing too is of no matter then
  }
}

std::string TraceFile::finish() {
  if (end_ == first_) return "No step was traced, as profiler_steps=0 asks.\n";
  if (traced_ == 0) return fmt::format("No step was traced: the run ended before step {}, see skip_first_n_steps_for_profiler.\n", first_);
  write();
  return fmt::format("Trace of steps {} to {}, for chrome://tracing or ui.perfetto.dev: {}\n", first_, first_ + traced_ - 1, path_);
}

}  // namespace moesh::train
