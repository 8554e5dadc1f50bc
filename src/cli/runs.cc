#include <algorithm>
#include <cmath>
#include <filesystem>

#include <fmt/core.h>

#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "base/table.h"
#include "base/terminal.h"
#include "base/text.h"
#include "cli/command.h"
#include "train/run_record.h"

namespace moesh::cli {
namespace {

using train::RecordedStep;
using train::RunRecord;

constexpr Option kRunsOptions[] = {
    {"--json", "", "the same as JSON"},
};

constexpr std::string_view kRunsExamples[] = {
    "runs",
    "runs moesh_output --json",
    "runs diff moesh_output/kept moesh_output/first",
};

constexpr double kAlike = 1e-6;  // relative difference up to which losses count as equal
constexpr std::size_t kMostShown = 8;

// A run that has its own folder is named after it.
std::string name_of(const RunRecord& run) {
  const std::filesystem::path path(run.path);
  return path.filename() == train::kMetricsName && path.has_parent_path() ? path.parent_path().string() : run.path;
}

std::string steps_of(const RunRecord& run) {
  const std::string asked = run.setting("steps");
  const std::string done = run.steps.empty() ? "0" : std::to_string(run.steps.back().step + 1);
  return asked.empty() || asked == "-1" ? done : done + " of " + asked;
}

std::string state_of(const RunRecord& run) {
  if (run.goes_on) return "goes on";
  const auto asked = parse_integer(run.setting("steps"));
  if (!asked || *asked < 0) return "ended";
  return !run.steps.empty() && run.steps.back().step + 1 >= *asked ? "done" : "ended before";
}

std::string loss_words(double loss) { return std::isnan(loss) ? "not a number" : fmt::format("{:.4f}", loss); }

int list_runs(const Arguments& arguments) {
  const std::string folder = arguments.words().empty() ? "moesh_output" : arguments.words().front();
  if (!std::filesystem::is_directory(folder))
    refuse("no such folder", folder, "name the base_output_directory of your runs");
  const std::vector<std::string> files = train::metrics_files_below(folder);
  if (files.empty()) refuse("no run is there", folder, "name the base_output_directory of your runs");
  Table table({{"run", false, Room::cut},
               {"began", false, Room::none, 3},
               {"steps", true},
               {"loss", true},
               {"eval loss", true, Room::none, 2},
               {"tokens/s", true},
               {"state"}});
  JsonWriter json;
  json.begin_array();
  for (const std::string& file : files) {
    RunRecord run;
    try {
      run = train::read_run(file);
    } catch (const Error& error) {
      log_notice(error.what());
      continue;
    }
    const bool has_steps = !run.steps.empty(), has_evals = !run.evals.empty();
    table.add({name_of(run), run.began, steps_of(run), has_steps ? loss_words(run.steps.back().loss) : "",
               has_evals ? loss_words(run.evals.back().loss) : "",
               has_steps ? with_commas(std::llround(run.tokens_per_second())) : "", state_of(run)});
    json.line()
        .begin_object()
        .key("run")
        .value(name_of(run))
        .key("began")
        .value(run.began)
        .key("starts")
        .value(run.starts);
    json.key("steps").value(has_steps ? run.steps.back().step + 1 : 0).key("state").value(state_of(run));
    if (has_steps)
      json.key("loss").value(run.steps.back().loss).key("tokens_per_second").value(run.tokens_per_second());
    if (has_evals) json.key("eval_loss").value(run.evals.back().loss);
    json.end_object();
  }
  json.line().end_array();
  fmt::print("{}", arguments.has("--json") ? json.text() + "\n" : table.text(terminal_width()));
  return 0;
}

// One step that both runs recorded.
struct Both {
  const RecordedStep *a, *b;

  double difference() const { return std::abs(a->loss - b->loss) / std::max(std::abs(a->loss), 1e-30); }
  // Two losses that are not finite count as equal.
  bool are_alike() const { return difference() <= kAlike || (!std::isfinite(a->loss) && !std::isfinite(b->loss)); }
};

std::vector<Both> steps_of_both(const RunRecord& a, const RunRecord& b) {
  std::vector<Both> both;
  for (auto of_a = a.steps.begin(), of_b = b.steps.begin(); of_a != a.steps.end() && of_b != b.steps.end();) {
    if (of_a->step == of_b->step)
      both.push_back({&*of_a++, &*of_b++});
    else
      ++(of_a->step < of_b->step ? of_a : of_b);
  }
  return both;
}

// The steps from `first` on that are printed: at gaps that double each time, and the last.
std::vector<Both> some_of(const std::vector<Both>& both, std::size_t first) {
  std::vector<Both> some;
  for (std::size_t i = first, stride = 1; i + 1 < both.size() && some.size() + 1 < kMostShown; i += stride, stride *= 2)
    some.push_back(both[i]);
  if (first < both.size()) some.push_back(both.back());
  return some;
}

std::string diff_words(const RunRecord& a, const RunRecord& b) {
  std::string words;
  const std::vector<store::ChangedSetting> changed = store::changed_settings(a.settings, b.settings);
  Table settings({{"setting"}, {name_of(a), false, Room::cut}, {name_of(b), false, Room::cut}});
  for (const store::ChangedSetting& one : changed) settings.add({one.key, one.before, one.after});
  words += changed.empty() ? "The same settings.\n" : settings.text(terminal_width());
  const std::vector<Both> both = steps_of_both(a, b);
  if (both.empty()) return words + "\nNo step was done by both.\n";
  const auto parted = std::find_if(both.begin(), both.end(), [](const Both& one) { return !one.are_alike(); });
  if (parted == both.end()) {
    words += fmt::format("\nThe same losses in all {} that both did.\n",
                         counted(static_cast<std::int64_t>(both.size()), "step"));
  } else {
    words += fmt::format("\nLosses part at step {}:\n\n", parted->a->step);
    Table losses({{"step", true}, {name_of(a), true, Room::cut}, {name_of(b), true, Room::cut}, {"difference", true}});
    for (const Both& one : some_of(both, static_cast<std::size_t>(parted - both.begin())))
      losses.add({std::to_string(one.a->step), loss_words(one.a->loss), loss_words(one.b->loss),
                  fmt::format("{:.2e}", one.difference())});
    words += losses.text(terminal_width());
  }
  return words + fmt::format("\nTokens/s: {} and {}, {:.2f} times.\n", with_commas(std::llround(a.tokens_per_second())),
                             with_commas(std::llround(b.tokens_per_second())),
                             b.tokens_per_second() / a.tokens_per_second());
}

std::string diff_json(const RunRecord& a, const RunRecord& b) {
  JsonWriter json;
  json.begin_object().key("a").value(name_of(a)).key("b").value(name_of(b)).key("settings").begin_array();
  for (const store::ChangedSetting& one : store::changed_settings(a.settings, b.settings))
    json.line()
        .begin_object()
        .key("key")
        .value(one.key)
        .key("a")
        .value(one.before)
        .key("b")
        .value(one.after)
        .end_object();
  const std::vector<Both> both = steps_of_both(a, b);
  const auto parted = std::find_if(both.begin(), both.end(), [](const Both& one) { return !one.are_alike(); });
  json.line()
      .end_array()
      .line()
      .key("steps_of_both")
      .value(static_cast<std::int64_t>(both.size()))
      .key("losses_part_at");
  if (parted == both.end())
    json.null();
  else
    json.value(parted->a->step);
  json.key("tokens_per_second").begin_array().value(a.tokens_per_second()).value(b.tokens_per_second()).end_array();
  return json.end_object().text() + "\n";
}

int run_runs(const Arguments& arguments) {
  const std::vector<std::string>& words = arguments.words();
  if (!arguments.request().empty())
    refuse(fmt::format("'{}' changes nothing of runs", shorten(arguments.request().front(), 80)), kCommandLine,
           "moesh runs [FOLDER]");
  if (words.empty() || words.front() != "diff") {
    if (words.size() > 1)
      refuse(fmt::format("'{}' besides a folder", shorten(words[1], 80)), kCommandLine,
             "moesh runs [FOLDER], or moesh runs diff A B");
    return list_runs(arguments);
  }
  if (words.size() != 3)
    refuse(fmt::format("{}, two were expected", counted(static_cast<std::int64_t>(words.size()) - 1, "run")),
           kCommandLine, "moesh runs diff A B");
  const RunRecord a = train::read_run(words[1]), b = train::read_run(words[2]);
  fmt::print("{}", arguments.has("--json") ? diff_json(a, b) : diff_words(a, b));
  return 0;
}

}  // namespace

const Command kRuns{"runs",
                    "[FOLDER] | diff A B [--json]",
                    "lists runs with their last figures, or tells what two of them differ in",
                    "Lists the runs whose metrics.jsonl stand in FOLDER (moesh_output) and below it: how far they "
                    "came, the last loss, the last of an\n"
                    "evaluation, tokens a second of the step in the middle, and whether they go on. `diff` tells which "
                    "settings differ between two runs, at\n"
                    "which step their losses part, and how much faster one is.",
                    kRunsOptions,
                    kRunsExamples,
                    run_runs};

}  // namespace moesh::cli
