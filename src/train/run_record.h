// Reads what a run left in its metrics file, as far as it can be read, whether the run ended, was killed or still goes on.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "store/index.h"

namespace moesh::train {

// A run's metrics file, in its folder.
inline constexpr const char* kMetricsName = "metrics.jsonl";

struct RecordedStep {
  std::int64_t step = 0;
  double seconds = 0, learning_rate = 0, loss = 0, raw_grad_norm = 0, param_norm = 0;
  double total_weights = 0;  // positions that count
  double busiest = 0;        // the busiest expert of any layer: its tokens over the mean; NaN without experts
  double dropped = 0;        // dropped choices of all layers
  std::int64_t line = 0;     // offset of its line in the file

  double tokens_per_second() const { return seconds > 0 ? total_weights / seconds : 0; }
};

struct RecordedEval {
  std::int64_t step = 0;
  double loss = 0;
};

struct RecordedCollective {
  std::string kind, where;
  std::int64_t runs = 0, planned_runs = 0, bytes = 0, planned_bytes = 0;
  bool is_bound = false;  // the planned bytes are an upper bound, as the router decides
};

// What a run writes at its end.
struct RunEnd {
  std::int64_t planned_memory = 0, memory = 0;  // bytes of the process: state and arenas
  std::vector<RecordedCollective> collectives;
};

struct RunRecord {
  std::string path;          // the metrics file
  std::string began;         // date of the last start
  std::string layout;        // "default on cpu-8: 8 devices as fsdp=2 x expert=4, default rules"; empty if the file does not tell
  std::int64_t starts = 0;   // number of starts
  store::Settings settings;  // of the last start, as they were given
  std::vector<RecordedStep> steps;  // a step that a later start did again is there once, as last done
  std::vector<RecordedEval> evals;  // without those after a step that a later start did again
  std::optional<RunEnd> end;  // of the last start; none until it ends
  bool goes_on = false;       // a process is still writing to the file

  std::string setting(const std::string& key) const;  // empty if it was not given
  double tokens_per_second() const;                   // of the median step
};

// `path`: a run's folder or its metrics file; refuses anything else. Leaves out lines that cannot be read, and says how many.
RunRecord read_run(const std::string& path);

// The loss of the evaluation after a step, if the metrics file has it. An evaluation does not count if its step, or an earlier one, was run
// again afterwards.
std::optional<double> recorded_evaluation(const std::string& path, std::int64_t step);

// How many tokens the experts had, over stretches of a run's steps.
struct ExpertHistory {
  struct OfLayer {
    std::size_t layer = 0;
    std::vector<std::vector<double>> tokens;  // by stretch and expert
  };
  std::size_t layers = 0;  // number of MoE layers, from the first step
  std::vector<OfLayer> chosen;
};

// At most this many layers, evenly chosen, and this many stretches. It reads the file again, because the tokens of all steps may
// not fit into memory.
ExpertHistory expert_history(const RunRecord& run, std::size_t most_layers, std::size_t most_stretches);

// The metrics files in a folder and everywhere below it, sorted by name.
std::vector<std::string> metrics_files_below(const std::string& folder);

}  // namespace moesh::train
