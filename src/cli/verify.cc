#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>

#include <fmt/core.h>

#include "base/error.h"
#include "base/json.h"
#include "base/table.h"
#include "base/terminal.h"
#include "base/text.h"
#include "cli/command.h"
#include "cli/recorded_tokenizer.h"
#include "config/hugging_face.h"
#include "config/keys.h"
#include "config/batch_words.h"
#include "decode/verify_tokens.h"
#include "session/reopen.h"
#include "session/session.h"
#include "train/verify.h"

namespace moesh::cli {
namespace {

constexpr Option kVerifyOptions[] = {
    {"--against-one-device", "", "holds the layout that FILE.yml and key=value ask for against the same model on one device"},
    {"--first", "N", "follows the first N steps only"},
    {"--json", "", "the verdicts as JSON"},
    kThreads,
};

constexpr std::string_view kVerifyExamples[] = {
    "verify tests/golden/models/llama",
    "verify tests/golden/models/mixtral ici_fsdp_parallelism=2 ici_expert_parallelism=4",
    "verify tests/golden/hf/gpt-oss-bf16 ici_fsdp_parallelism=2 ici_expert_parallelism=4",
    "verify tests/golden/layouts/mixtral-cap1.25-dispatch-noexpert.json --first 3",
    "verify tests/golden/tokenizers/bytelevel-llama3 tests/golden/tokenizers/t5",
    "verify --against-one-device configs/first.yml custom_mesh_and_rule=ep-tp steps=2 max_target_length=32",
};

constexpr std::int64_t kMostSteps = 10;  // most steps that are compared with one device

std::string number(double value) { return std::isnan(value) ? "not a number" : fmt::format("{:.2e}", value); }

bool any_starts_with(const std::vector<std::string>& words, std::initializer_list<std::string_view> starts) {
  return std::any_of(words.begin(), words.end(), [&](const std::string& word) {
    return std::any_of(starts.begin(), starts.end(), [&](std::string_view start) { return word.starts_with(start); });
  });
}

// The recorded request with the user's changes. Unless these say otherwise, it runs on as many devices as recorded; on another number
// of devices the global batch stays the same.
session::Session session_of(const train::ReferenceRun& run, const std::vector<std::string>& changes) {
  std::vector<std::string> request = run.request;
  if (!any_starts_with(changes, {"compile_topology=", "ici_", "dcn_"})) {
    request.push_back(fmt::format("compile_topology=cpu-{}", run.devices));
  }
  request = config::joined(std::move(request), changes);
  session::Session session = session::open_to_run(request, config::Run::steps);
  if (session.mesh.devices() == run.devices || any_starts_with(changes, {"per_device_batch_size="})) return session;
  const double rows = session.loaded.settings.real("per_device_batch_size") * static_cast<double>(run.devices);
  request.push_back(config::batch_key(rows / static_cast<double>(session.mesh.devices())));
  return session::open_to_run(request, config::Run::steps);
}

// A recorded model, with its rows repeated until the devices share them evenly. It runs on one device unless the changes say otherwise.
session::Session session_of(const train::RecordedModel& recorded, const std::vector<std::string>& changes) {
  std::vector<std::string> request = recorded.request;
  const auto with_rows = [&](std::int64_t devices) {
    std::vector<std::string> all = request;
    all.push_back(config::batch_key(config::rows_a_device(train::rows_on(recorded, devices), devices)));
    return session::open_to_run(config::joined(std::move(all), changes), config::Run::steps);
  };
  if (!any_starts_with(changes, {"compile_topology=", "ici_", "dcn_"})) request.emplace_back("compile_topology=cpu-1");
  session::Session session = with_rows(1);
  const std::int64_t devices = session.mesh.devices();
  return devices == 1 || any_starts_with(changes, {"per_device_batch_size="}) ? std::move(session) : with_rows(devices);
}

// The same model and rows on one device.
session::Session one_device(const session::Session& session, std::vector<std::string> request) {
  for (const mesh::Axis& axis : session.mesh.axes()) {
    for (const mesh::Level level : {mesh::Level::ici, mesh::Level::dcn}) request.push_back(mesh::key_for(level, axis.name) + "=1");
  }
  request.emplace_back("compile_topology=cpu-1");
  request.emplace_back("compile_topology_num_slices=1");
  request.emplace_back("owners=1");
  const std::int64_t microbatches = session.loaded.settings.integer("gradient_accumulation_steps");
  request.push_back(config::batch_key(static_cast<double>(session.batch.rows_to_train / microbatches)));
  return session::reopen(request);
}

train::Subject subject(const session::Session& s) { return {s.graph, s.loaded.settings, s.batch, {s.layout, s.target}}; }

train::Findings verify_model(const train::RecordedModel& recorded, const std::vector<std::string>& changes, backend::Workers& workers) {
  const session::Session s = session_of(recorded, changes);
  train::Findings findings = train::verify_model(recorded, subject(s), workers);
  const train::Findings tokens = decode::verify_tokens(recorded, session::model_request(s, s.batch.rows_to_train), s.target, workers);
  findings.verdicts.insert(findings.verdicts.end(), tokens.verdicts.begin(), tokens.verdicts.end());
  findings.unheld.insert(findings.unheld.end(), tokens.unheld.begin(), tokens.unheld.end());
  return findings;
}

// How many of the `most` steps the user wants to follow.
std::int64_t steps_of(const Arguments& arguments, std::int64_t most) {
  return count_of(arguments, "--first", most, fmt::format("at most the {} that there are", counted(most, "step"))).value_or(most);
}

std::vector<train::Verdict> against_one_device(const Arguments& arguments, backend::Workers& workers) {
  const session::Session session = session::open_to_run(arguments.request(), config::Run::steps);
  const session::Session one = one_device(session, arguments.request());
  const std::int64_t asked = session.loaded.settings.integer("steps");
  if (asked == 0) refuse("steps=0 leaves nothing to compare", session.loaded.settings.origin("steps").where, "steps=1 or more");
  const std::int64_t steps = steps_of(arguments, asked < 0 ? kMostSteps : std::min(asked, kMostSteps));
  return train::verify_against(subject(one), subject(session), steps, workers);
}

class Verdicts {
 public:
  Verdicts() { json_.begin_array(); }

  void add(const std::string& name, const std::string& path, const std::vector<train::Verdict>& verdicts) {
    for (const train::Verdict& v : verdicts) {
      json_.line().begin_object().key("run").value(path).key("quantity").value(v.quantity).key("error").value(v.error);
      json_.key("tolerance").value(v.tolerance).key("worst").value(v.worst).key("passes").value(v.passes()).end_object();
      all_pass_ = all_pass_ && v.passes();
      table_.add({name, v.quantity, number(v.error), number(v.tolerance), v.passes() ? "ok" : "OFF", v.worst});
    }
  }

  void add(const std::string& name, const std::string& path, const train::Findings& findings) {
    add(name, path, findings.verdicts);
    for (const train::Unheld& unheld : findings.unheld) add(name, path, unheld);
  }

  // Adds a quantity that was not compared for this run.
  void add(const std::string& name, const std::string& path, const train::Unheld& unheld) {
    json_.line().begin_object().key("run").value(path).key("quantity").value(unheld.quantities).key("error").null();
    json_.key("tolerance").null().key("worst").value(unheld.why).key("passes").null().end_object();
    unheld_[fmt::format("{} ({})", unheld.quantities, unheld.why)].push_back(name);
  }

  // Returns the exit code.
  int print(bool as_json, std::string_view expected) {
    json_.line().end_array();
    if (as_json) {
      fmt::print("{}\n", json_.text());
    } else {
      fmt::print("{}", table_.text(terminal_width()));
      for (const auto& [what, runs] : unheld_) fmt::print("not compared: {}: {}\n", what, join(runs, ", "));
      fmt::print("{}{} {}.\n", all_pass_ ? "all" : "not all is", unheld_.empty() ? "" : all_pass_ ? " that was compared is" : "", expected);
    }
    return all_pass_ ? 0 : 1;
  }

 private:
  JsonWriter json_;
  Table table_{{{"run", false, Room::cut_start}, {"quantity"}, {"error", true}, {"tolerance", true}, {""},
                {"worst", false, Room::cut_start}}};
  std::map<std::string, std::vector<std::string>> unheld_;  // quantities that were not compared, and in which runs
  bool all_pass_ = true;
};

// Refuses what none of the recorded paths takes.
void check_effects(const Arguments& arguments) {
  const std::vector<std::string>& paths = arguments.words();
  const auto all_are = [&](auto is_such) { return std::all_of(paths.begin(), paths.end(), is_such); };
  if (all_are(is_recorded_tokenizer) && !arguments.request().empty()) {
    refuse(fmt::format("{} has no effect on a recorded tokenizer", arguments.request().front()), kCommandLine, "leave it out");
  }
  const bool has_steps = !all_are([](const std::string& path) { return is_recorded_tokenizer(path) || config::is_hugging_face(path); });
  if (arguments.has("--first") && !has_steps) {
    refuse("--first has no effect on recorded tokenizers and Hugging Face folders, which have no steps", kCommandLine,
           "leave it out");
  }
}

int run_verify(const Arguments& arguments) {
  backend::Workers workers(threads_of(arguments));
  Verdicts verdicts;
  if (arguments.has("--against-one-device")) {
    if (!arguments.words().empty()) {
      refuse(fmt::format("a recorded run, '{}', beside --against-one-device", arguments.words().front()), kCommandLine,
             "name FILE.yml and key=value only");
    }
    verdicts.add("layout", "layout", against_one_device(arguments, workers));
    return verdicts.print(arguments.has("--json"), "as on one device");
  }
  if (arguments.words().empty()) {
    refuse("no run is named", kCommandLine, "moesh verify PATH... [key=value ...]");
  }
  check_effects(arguments);
  for (const std::string& path : arguments.words()) {
    if (is_recorded_tokenizer(path)) {
      verdicts.add(std::filesystem::path(path).filename(), path, verify_tokenizer(path));
      continue;
    }
    if (config::is_hugging_face(path)) {
      const train::RecordedModel recorded = train::read_recorded_model(path);
      verdicts.add(recorded.name, path, verify_model(recorded, arguments.request(), workers));
      continue;
    }
    train::ReferenceRun recorded = train::read_reference_run(path);
    recorded.curve.resize(static_cast<std::size_t>(steps_of(arguments, static_cast<std::int64_t>(recorded.curve.size()))));
    const session::Session session = session_of(recorded, arguments.request());
    const train::Findings findings = train::verify(recorded, subject(session), workers);
    verdicts.add(recorded.name, path, findings);
  }
  return verdicts.print(arguments.has("--json"), "as recorded");
}

}  // namespace

const Command kVerify{
    "verify",
    "PATH... | --against-one-device [FILE.yml] [key=value ...] [--first N] [--json]",
    "holds this engine, on any mesh, against a recorded run or against one device",
    "Runs the steps of a recorded run (a folder with config.json, batch.safetensors, curve.json and the parameters it\n"
    "started from; or a layout's .json, which names its run and a mesh) and prints for each quantity the largest error,\n"
    "the tolerance and where it is. key=value changes the request, also the mesh; the batch stays the recorded one.\n"
    "A Hugging Face folder with expect.safetensors and expect.json (or another config file in it) is held to what was\n"
    "recorded of that model: loss, logits, gradients, tokens of each expert, and what prompts are gone on with.\n"
    "A recorded tokenizer (a folder with one and an expect.json of texts) is held to the ids and texts in it.\n"
    "With --against-one-device a configuration is held against itself on one device. Exit code 1 when something is off.",
    kVerifyOptions,
    kVerifyExamples,
    run_verify};

}  // namespace moesh::cli
