#include "tests/config/observed.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <regex>
#include <utility>

#include "config/pipeline.h"
#include "data/open.h"
#include "graph/print.h"
#include "mesh/context_order.h"
#include "sharding/dump.h"
#include "tests/cli/outcome.h"
#include "tests/train/trainer_support.h"
#include "train/program.h"

namespace moesh::test {
namespace {

template <typename Numbers>
void write(const Numbers& numbers, std::string& text) {
  for (const auto number : numbers) text += fmt::format("{} ", number);
  text += "\n";
}

std::string batches_of(const session::Session& session) {
  const config::Settings& settings = session.loaded.settings;
  const auto source = data::open_source(settings, session.batch.rows_to_load, 2);
  std::string text = source->describe();
  for (std::int64_t row = 0; row < 2 * session.batch.rows_to_load; ++row) {
    const data::Example made = source->example(row, settings.integer("max_target_length"));
    for (const auto* numbers : {&made.inputs, &made.targets, &made.positions, &made.segments, &made.target_segments})
      write(*numbers, text);
  }
  return text;
}

// An error in the data is part of what is observed.
std::string observed_batches(const session::Session& session) {
  std::string text;
  const std::string error = message_of([&] { text = batches_of(session); });
  return error == "no error" ? text : error;
}

void append_bits(const run::Array& array, std::string& bits) {
  bits.append(reinterpret_cast<const char*>(array.view.data),
              static_cast<std::size_t>(array.view.count() * size_of(array.view.dtype)));
}

// Removes what depends on the moment: times, and peaks that include what the process held before. Peak memory has tests of its own.
std::string without_times(const std::string& printed) {
  static const std::regex times(
      R"(seconds: [^,]+, TFLOP/s/device: [^,]+, Tokens/s/device: [^,]+|in [^,]+, [0-9]+ tokens/s|at the peak a device holds [^\n]+|Steps waited [^\n]+\n|in [0-9.]+ s; the run has waited [0-9.]+ s|read(?: by the processes)? in [0-9.]+ s)");
  return std::regex_replace(printed, times, "");
}

using Observe = std::string (*)(const std::string&);

// A request that is compared with many others is observed only once.
bool differs(const std::string& before, const std::string& after, Observe observe) {
  static std::map<std::pair<Observe, std::string>, std::string> all;
  auto found = all.find({observe, before});
  if (found == all.end()) found = all.emplace(std::pair{observe, before}, observe(before)).first;
  return found->second != observe(after);
}

}  // namespace

std::string observed_plan(const std::string& request) {
  const session::Session session = test::session(request);
  std::string text = session::headline(session) + sharding::to_json(session.layout) + graph::to_text(session.graph);
  if (config::has_pipeline(session.loaded.settings)) return text;
  return text + graph::to_text(
                    train::step_program(session.graph, session.loaded.settings, {session.layout, session.target}).graph);
}

std::string observed_data(const std::string& request) {
  const session::Session session = test::session(request);
  std::string text = observed_batches(session);
  write(mesh::context_order(session.loaded.settings, session.mesh), text);
  for (std::int64_t step = 0; step < 20; ++step)
    text += fmt::format("{} ", train::learning_rate(session.loaded.settings, step));
  return text;
}

std::string observed_numbers(const std::string& request) {
  Training training(request + " dataset_type=synthetic", 1, test::kKeepAll);
  const train::Batch batch = training.batch();
  std::string bits;
  append_bits(training.trainer.logits(training.trainer.run_step(batch)), bits);
  training.trainer.step(batch);
  for (const std::string& path : training.paths()) append_bits(training.trainer.parameter(path), bits);
  return bits;
}

std::string observed_run(const std::string& request) {
  const TemporaryFolder folder;
  // The settings printed at the start must not count as an effect, nor may a default run name that contains the time.
  const cli::Outcome outcome = cli::outcome("train log_config=false run_name=observed base_output_directory=" + folder.path() + " " + request);
  std::string text = fmt::format("{}\n{}\n{}\n", outcome.code, without_times(outcome.out), outcome.err);
  for (std::size_t at = 0; (at = text.find(folder.path())) != std::string::npos;) text.erase(at, folder.path().size());
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder.path())) {
    const std::string name = entry.path().lexically_relative(folder.path()).string();
    files.push_back(name.substr(0, name.find(".tfevents.")));  // the rest of the name is time, machine and process
  }
  std::sort(files.begin(), files.end());
  return text + join(files, "\n");
}

bool differ_as_models(const std::string& before, const std::string& after) {
  return differs(before, after, observed_plan) || differs(before, after, observed_numbers);
}

bool differ(const std::string& before, const std::string& after) {
  return differs(before, after, observed_plan) || differs(before, after, observed_data) ||
         differs(before, after, observed_numbers) || differs(before, after, observed_run);
}

}  // namespace moesh::test
