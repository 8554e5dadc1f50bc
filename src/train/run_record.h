// What a run left behind in its metrics file, as far as it can be read: of runs that ended, were killed, or still go on.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "store/index.h"

namespace moesh::train {

struct RecordedStep {
  std::int64_t step = 0;
  double seconds = 0, learning_rate = 0, loss = 0, raw_grad_norm = 0, param_norm = 0;
  double total_weights = 0;  // positions that count
  double busiest = 0;        // tokens of the busiest expert of any layer, times the mean; not a number without experts
  double dropped = 0;        // choices, of all layers
  std::int64_t line = 0;     // where its line begins in the file

  double tokens_per_second() const { return seconds > 0 ? total_weights / seconds : 0; }
};

struct RecordedEval {
  std::int64_t step = 0;
  double loss = 0;
};

struct RecordedCollective {
  std::string kind, where;
  std::int64_t runs = 0, planned_runs = 0, bytes = 0, planned_bytes = 0;
  bool is_bound = false;  // the planned bytes, as the router decides
};

// What a run says at its end.
struct RunEnd {
  std::int64_t planned_memory = 0, memory = 0;  // of the process: state and arenas
  std::vector<RecordedCollective> collectives;
};

struct RunRecord {
  std::string path;          // of the file
  std::string began;         // the last time
  std::int64_t starts = 0;   // how often
  store::Settings settings;  // of the last time, as they were given
  std::vector<RecordedStep> steps;  // what a later start did again is there once, as it did it
  std::vector<RecordedEval> evals;
  std::optional<RunEnd> end;  // of the last start, once it is there
  bool goes_on = false;       // somebody writes to it

  std::string setting(const std::string& key) const;  // empty where it was not given
  double tokens_per_second() const;                   // of the step in the middle
};

// `path`: a run's folder or its metrics file. Refuses what is neither. Tells how many lines cannot be read, and leaves them out.
RunRecord read_run(const std::string& path);

// How many tokens experts had over stretches of a run's steps.
struct ExpertHistory {
  struct OfLayer {
    std::size_t layer = 0;
    std::vector<std::vector<double>> tokens;  // by stretch and expert
  };
  std::size_t layers = 0;  // with experts, of the first step
  std::vector<OfLayer> chosen;
};

// Of so many layers at most, evenly chosen, and of so many stretches. It reads the file again: the tokens of all steps may be more than
// the memory holds.
ExpertHistory expert_history(const RunRecord& run, std::size_t most_layers, std::size_t most_stretches);

// The metrics files in a folder and all below it, by name.
std::vector<std::string> metrics_files_below(const std::string& folder);

}  // namespace moesh::train
