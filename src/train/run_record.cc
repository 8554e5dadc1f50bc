#include "train/run_record.h"

#include <algorithm>
#include <filesystem>
#include <limits>

#include <fcntl.h>
#include <sys/file.h>

#include "base/descriptor.h"
#include "base/error.h"
#include "base/json_reader.h"
#include "base/text.h"
#include "base/whole_file.h"

namespace moesh::train {
namespace {

namespace fs = std::filesystem;

constexpr const char* kName = "metrics.jsonl";
constexpr std::int64_t kMostBytes = std::int64_t{4} << 30;

// What is not finite was written as null.
double number(const Json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_number()) return std::numeric_limits<double>::quiet_NaN();
  return found->get<double>();
}

RecordedStep step_of(const Json& line) {
  RecordedStep step{line["step"].get<std::int64_t>(),
                    number(line, "seconds"),
                    number(line, "learning_rate"),
                    number(line, "loss"),
                    number(line, "raw_grad_norm"),
                    number(line, "param_norm"),
                    number(line, "total_weights"),
                    {},
                    0};
  const auto moe = line.find("moe");
  if (moe == line.end() || !moe->is_object()) return step;
  step.tokens = moe->value("tokens", step.tokens);
  for (const double dropped : moe->value("dropped", std::vector<double>())) step.dropped += dropped;
  return step;
}

RunEnd end_of(const Json& about) {
  RunEnd end{about.value("planned_memory", std::int64_t{0}), about.value("memory", std::int64_t{0}), {}};
  for (const Json& one : about.value("collectives", Json::array())) {
    const auto count = [&](const char* key) { return one.value(key, std::int64_t{0}); };
    end.collectives.push_back({one.value("kind", ""), one.value("where", ""), count("runs"), count("planned_runs"), count("bytes"),
                               count("planned_bytes"), one.value("at_most", false)});
  }
  return end;
}

void begin_again(RunRecord& run, const Json& about) {
  ++run.starts;
  run.end.reset();
  run.began = about.value("began", "");
  run.settings.clear();
  const auto settings = about.find("settings");
  if (settings == about.end() || !settings->is_object()) return;
  for (const auto& [key, value] : settings->items())
    run.settings.emplace_back(key, value.is_string() ? value.get<std::string>() : value.dump());
}

// What comes at `step` or later was done again.
template <typename Recorded>
void take(std::vector<Recorded>& all, Recorded one) {
  while (!all.empty() && all.back().step >= one.step) all.pop_back();
  all.push_back(std::move(one));
}

// False where it is none of ours.
bool add_line(RunRecord& run, const std::string& text) {
  const Json line = parse_json(text, run.path);
  if (line.contains("run") && line["run"].contains("ended"))
    run.end = end_of(line["run"]);
  else if (line.contains("run"))
    begin_again(run, line["run"]);
  else if (line.contains("step"))
    take(run.steps, step_of(line));
  else if (line.contains("eval_step"))
    take(run.evals, RecordedEval{line["eval_step"].get<std::int64_t>(), number(line, "eval/avg_loss")});
  else
    return false;
  return true;
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
  constexpr const char* kFix = "name a run's folder, or its metrics.jsonl; `moesh runs` lists those below moesh_output";
  RunRecord run;
  run.path = fs::is_directory(path) ? (fs::path(path) / kName).string() : path;
  run.goes_on = is_being_written(run.path);
  const std::string text = read_file(run.path, "the metrics", kMostBytes, kFix);
  if (!text.starts_with(R"({"run": )")) refuse("it holds no metrics of moesh", run.path, kFix);
  for (const std::string& line : split(text, '\n')) {
    if (line.empty()) continue;
    try {
      if (!add_line(run, line)) ++run.unreadable;
    } catch (const std::exception&) {
      ++run.unreadable;
    }
  }
  // The last line of a run that is killed, or writes it just now.
  if (!text.ends_with('\n') && run.unreadable > 0) --run.unreadable;
  return run;
}

std::vector<std::string> metrics_files_below(const std::string& folder) {
  std::vector<std::string> files;
  std::error_code error;
  for (fs::recursive_directory_iterator at(folder, fs::directory_options::skip_permission_denied, error), end;
       !error && at != end; at.increment(error)) {
    if (at->path().filename() == kName) files.push_back(at->path().string());
    if (at->path().filename() == "checkpoints") at.disable_recursion_pending();
  }
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace moesh::train
