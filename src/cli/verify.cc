#include <cmath>

#include <fmt/core.h>

#include "base/error.h"
#include "base/json.h"
#include "base/table.h"
#include "cli/command.h"
#include "cli/session.h"
#include "train/verify.h"

namespace moesh::cli {
namespace {

constexpr Option kOptions[] = {{"--json", "", "the verdicts as JSON"}};

constexpr std::string_view kExamples[] = {"verify tests/golden/models/llama"};

std::string number(double value) { return std::isnan(value) ? "not a number" : fmt::format("{:.2e}", value); }

// The run's own request, on as many devices as it had, then what the user changes.
Session session_of(const train::ReferenceRun& run, const std::vector<std::string>& changes) {
  std::vector<std::string> request = run.request;
  request.push_back(fmt::format("compile_topology=cpu-{}", run.devices));
  request.insert(request.end(), changes.begin(), changes.end());
  return open_session(request);
}

void write(JsonWriter& json, const std::string& path, const std::vector<train::Verdict>& verdicts) {
  for (const train::Verdict& v : verdicts) {
    json.line().begin_object().key("run").value(path).key("quantity").value(v.quantity).key("error").value(v.error);
    json.key("tolerance").value(v.tolerance).key("worst").value(v.worst).key("passes").value(v.passes()).end_object();
  }
}

int run(const Arguments& arguments) {
  if (arguments.words().empty()) {
    refuse("no run is named", "the command line", "moesh verify PATH... [key=value ...]");
  }
  run::Workers workers(0);
  JsonWriter json;
  json.begin_array();
  Table table({{"run", false, true, true},
               {"quantity", false, false},
               {"error", true, false},
               {"tolerance", true, false},
               {"", false, false},
               {"worst", false, true, true}});
  bool all_pass = true;
  for (const std::string& path : arguments.words()) {
    const train::ReferenceRun recorded = train::read_reference_run(path);
    const Session session = session_of(recorded, arguments.request());
    if (session.mesh.devices() > 1) {
      refuse(fmt::format("a mesh of {} devices; runs are held against one device so far", session.mesh.devices()),
             path);
    }
    const std::vector<train::Verdict> verdicts =
        train::verify(recorded, session.graph, session.loaded.settings, workers);
    write(json, path, verdicts);
    for (const train::Verdict& v : verdicts) {
      all_pass = all_pass && v.passes();
      table.add({recorded.name, v.quantity, number(v.error), number(v.tolerance), v.passes() ? "ok" : "OFF", v.worst});
    }
  }
  json.line().end_array();
  if (arguments.has("--json")) {
    fmt::print("{}\n", json.text());
  } else {
    fmt::print("{}{}\n", table.text(terminal_width()), all_pass ? "all as recorded." : "not all is as recorded.");
  }
  return all_pass ? 0 : 1;
}

}  // namespace

const Command kVerify{
    "verify",
    "PATH... [key=value ...] [--json]",
    "holds this engine against a recorded run, quantity by quantity",
    "Runs the steps of a recorded run (a folder with config.json, batch.safetensors, curve.json and the parameters it\n"
    "started from) and prints for each quantity the largest error, the tolerance and where it is. Exit code 1 when\n"
    "something is off.",
    kOptions,
    kExamples,
    run};

}  // namespace moesh::cli
