#include "train/run_record.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <limits>

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/file.h>

#include "base/descriptor.h"
#include "base/error.h"
#include "base/file_lines.h"
#include "base/json_reader.h"
#include "base/log.h"
#include "base/text.h"

namespace moesh::train {
namespace {

namespace fs = std::filesystem;

constexpr const char* kWhat = "the metrics";
constexpr const char* kNameARun = "name a run's folder, or its metrics.jsonl; `moesh runs` lists those below moesh_output";

// A number under a key; NaN for null, which is written for numbers that are not finite.
double number(const Json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_number()) return std::numeric_limits<double>::quiet_NaN();
  return found->get<double>();
}

using Numbers = std::vector<double>;

// What the line of a step says about its experts, under a key.
template <typename T>
T of_experts(const Json& line, const char* key) {
  const auto moe = line.find("moe");
  return moe == line.end() || !moe->is_object() ? T() : moe->value(key, T());
}

RecordedStep step_of(const Json& line, std::int64_t begin) {
  RecordedStep step{member<std::int64_t>(line, "step", ""),
                    number(line, "seconds"),
                    number(line, "learning_rate"),
                    number(line, "loss"),
                    number(line, "raw_grad_norm"),
                    number(line, "param_norm"),
                    number(line, "total_weights"),
                    std::nan(""),
                    0,
                    begin};
  // A layer whose experts have no tokens has 0 here.
  for (const double times : of_experts<Numbers>(line, "max_over_mean")) {
    if (times > 0) step.busiest = std::fmax(step.busiest, times);
  }
  for (const double dropped : of_experts<Numbers>(line, "dropped")) step.dropped += dropped;
  return step;
}

RunEnd end_of(const Json& about) {
  const auto count = [](const Json& of, const char* key) { return of.contains(key) ? member<std::int64_t>(of, key, "") : 0; };
  RunEnd end{count(about, "planned_memory"), count(about, "memory"), {}};
  for (const Json& one : about.value("collectives", Json::array())) {
    end.collectives.push_back({one.value("kind", ""), one.value("where", ""), count(one, "runs"), count(one, "planned_runs"),
                               count(one, "bytes"), count(one, "planned_bytes"), one.value("at_most", false)});
  }
  return end;
}

void begin_again(RunRecord& run, const Json& about) {
  ++run.starts;
  run.end.reset();
  run.began = about.value("began", "");
  run.layout = about.value("layout", "");
  run.settings.clear();
  const auto settings = about.find("settings");
  if (settings == about.end() || !settings->is_object()) return;
  for (const auto& [key, value] : settings->items()) run.settings.emplace_back(key, word_of(value));
}

// Drops what was recorded of a step and later ones, which are done again.
template <typename Recorded>
void drop_from(std::vector<Recorded>& all, std::int64_t step) {
  while (!all.empty() && all.back().step >= step) all.pop_back();
}

template <typename Recorded>
void take(std::vector<Recorded>& all, Recorded one) {
  drop_from(all, one.step);
  all.push_back(std::move(one));
}

void take_step(RunRecord& run, RecordedStep step) {
  drop_from(run.evals, step.step);
  take(run.steps, std::move(step));
}

// Returns false for a line that is not one of ours.
bool add_line(RunRecord& run, const FileLines::Line& read) {
  const Json line = parse_json(read.text, run.path);
  if (line.contains("run") && line["run"].contains("ended"))
    run.end = end_of(line["run"]);
  else if (line.contains("run"))
    begin_again(run, line["run"]);
  else if (line.contains("step"))
    take_step(run, step_of(line, read.begin));
  else if (line.contains("eval_step"))
    take(run.evals, RecordedEval{member<std::int64_t>(line, "eval_step", ""), number(line, "eval/avg_loss")});
  else
    return false;
  return true;
}

bool is_added(RunRecord& run, const FileLines::Line& line) {
  try {
    return add_line(run, line);
  } catch (const std::exception&) {
    return false;
  }
}

// By layer and expert; empty if the file has another line there by now.
std::vector<Numbers> tokens_at(FileLines& lines, const RecordedStep& step) {
  FileLines::Line line;
  lines.go_to(step.line);
  if (!lines.next(line)) return {};
  try {
    return of_experts<std::vector<Numbers>>(parse_json(line.text, ""), "tokens");
  } catch (const std::exception&) {
    return {};
  }
}

bool is_being_written(const std::string& path) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.is_open() || ::flock(file.number(), LOCK_SH | LOCK_NB) == 0) return false;
  return errno == EWOULDBLOCK;
}

}  // namespace

std::string RunRecord::setting(const std::string& key) const {
  const auto found = std::find_if(settings.begin(), settings.end(), [&](const auto& one) { return one.first == key; });
  return found == settings.end() ? "" : found->second;
}

double RunRecord::tokens_per_second() const {
  if (steps.empty()) return 0;
  std::vector<double> rates;
  for (const RecordedStep& step : steps) rates.push_back(step.tokens_per_second());
  const auto middle = rates.begin() + static_cast<std::ptrdiff_t>(rates.size() / 2);
  std::nth_element(rates.begin(), middle, rates.end());
  return *middle;
}

RunRecord read_run(const std::string& path) {
  RunRecord run;
  run.path = fs::is_directory(path) ? (fs::path(path) / kMetricsName).string() : path;
  run.goes_on = is_being_written(run.path);
  FileLines lines(run.path, kWhat, kNameARun);
  FileLines::Line line;
  if (!lines.next(line) || !line.text.starts_with(R"({"run": )")) refuse("it holds no metrics of moesh", run.path, kNameARun);
  std::int64_t unreadable = 0;
  do {
    // The last line of a run that was killed, or that is being written right now, has no newline.
    if (!line.text.empty() && !is_added(run, line) && line.has_end) ++unreadable;
  } while (lines.next(line));
  if (unreadable > 0)
    log_notice(fmt::format("{}: {} cannot be read and {} left out", run.path, counted(unreadable, "line"), unreadable == 1 ? "is" : "are"));
  return run;
}

std::optional<double> recorded_evaluation(const std::string& path, std::int64_t step) {
  constexpr std::string_view kStep = R"({"step": )", kEvaluation = R"({"eval_step": )";
  std::error_code error;
  if (!fs::is_regular_file(path, error)) return std::nullopt;
  RunRecord run;
  FileLines lines(path, kWhat, kNameARun);
  for (FileLines::Line line; lines.next(line);) {
    if (!line.has_end) continue;
    // The line of a step may be long, and only its number is needed.
    if (line.text.starts_with(kStep)) drop_from(run.evals, std::strtoll(line.text.c_str() + kStep.size(), nullptr, 10));
    if (line.text.starts_with(kEvaluation)) is_added(run, line);
  }
  const auto found = std::find_if(run.evals.begin(), run.evals.end(), [&](const RecordedEval& eval) { return eval.step == step; });
  return found == run.evals.end() ? std::nullopt : std::optional(found->loss);
}

ExpertHistory expert_history(const RunRecord& run, std::size_t most_layers, std::size_t most_stretches) {
  ExpertHistory history;
  if (run.steps.empty()) return history;
  FileLines lines(run.path, kWhat, kNameARun);
  const std::vector<Numbers> first = tokens_at(lines, run.steps.front());
  const std::size_t steps = run.steps.size(), stretches = std::min(steps, most_stretches), count = std::min(first.size(), most_layers);
  history.layers = first.size();
  for (std::size_t k = 0; k < count; ++k) {
    const std::size_t layer = k * first.size() / count;
    history.chosen.push_back({layer, std::vector<Numbers>(stretches, Numbers(first[layer].size()))});
  }
  for (std::size_t i = 0; i < steps && count > 0; ++i) {
    const std::vector<Numbers> tokens = tokens_at(lines, run.steps[i]);
    for (ExpertHistory::OfLayer& of : history.chosen) {
      Numbers& sums = of.tokens[((i + 1) * stretches - 1) / steps];
      if (of.layer >= tokens.size() || tokens[of.layer].size() != sums.size()) continue;
      std::transform(sums.begin(), sums.end(), tokens[of.layer].begin(), sums.begin(), std::plus<>());
    }
  }
  return history;
}

std::vector<std::string> metrics_files_below(const std::string& folder) {
  std::vector<std::string> files;
  std::error_code error;
  for (fs::recursive_directory_iterator at(folder, fs::directory_options::skip_permission_denied, error), end;
       !error && at != end; at.increment(error)) {
    if (at->path().filename() == kMetricsName) files.push_back(at->path().string());
    if (at->path().filename() == "checkpoints") at.disable_recursion_pending();
  }
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace moesh::train
