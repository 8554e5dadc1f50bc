
#include <fmt/core.h>

#include "base/error.h"
#include "base/json.h"
#include "base/table.h"
#include "base/text.h"
#include "cli/command.h"
#include "graph/print.h"
#include "plan/json.h"
#include "plan/print.h"
#include "session/session.h"
#include "train/program.h"

namespace moesh::cli {
namespace {

constexpr Option kGraphOptions[] = {
    {"--after", "PASS", "the graph of a training step after this pass, see below"},
    {"--partitioned", "",
     "the training step on the mesh: how each value lies, and behind it the partitioner's choices, each with its price and the "
     "next best"},
    {"--plan", "",
     "the training step as it runs: ports, instructions on views of buffers with their loops, and where the buffers lie"},
    {"--json", "", "with --partitioned the choices, with --plan the plan, as JSON"},
};

constexpr std::string_view kGraphExamples[] = {
    "graph model_name=mixtral-8x7b",
    "graph model_name=deepseek3-tiny sparse_matmul=False capacity_factor=1.25 --after slots",
    "graph model_name=mixtral-8x7b compile_topology=v6e-8 ici_expert_parallelism=4 ici_fsdp_parallelism=2 --partitioned",
};

enum class What { model, after, partitioned, plan };

What asked_for(const Arguments& arguments) {
  std::vector<std::string> given;
  for (const char* option : {"--after", "--partitioned", "--plan"}) {
    if (arguments.has(option)) given.emplace_back(option);
  }
  if (given.size() > 1)
    refuse(fmt::format("{} are different questions", join(given, " and ")), kCommandLine, given.front());
  const What what = given.empty()           ? What::model
                    : given[0] == "--after" ? What::after
                    : given[0] == "--plan"  ? What::plan
                                            : What::partitioned;
  if (arguments.has("--json") && (what == What::model || what == What::after)) {
    refuse("--json is for --partitioned and --plan: a graph's text is read back as it is", kCommandLine,
           "leave --json away");
  }
  return what;
}

void print(const session::Session& session, const graph::Graph& graph, bool lies) {
  const graph::GraphCounts counts = graph::count(graph);
  fmt::print("# {}\n# {}, {}; {}\n{}", session::headline(session), counted(counts.nodes, "node"),
             fmt::format("{} parameters, {} layouts asked for", counts.parameters, counts.constraints),
             lies ? "global shapes and how they lie" : "global shapes", graph::to_text(graph, lies ? &session.mesh : nullptr));
}

train::StepProgram program_of(const session::Session& session, const train::SeeGraph& see = {}) {
  return train::step_program(session.graph, session.loaded.settings, {session.layout, session.target}, {}, see);
}

const train::GraphPass& known_pass(const std::string& name) {
  std::vector<std::string> names;
  for (const train::GraphPass& pass : train::graph_passes()) {
    if (pass.name == name) return pass;
    names.emplace_back(pass.name);
  }
  const std::vector<std::string> close = nearest(name, names, 1);
  refuse(fmt::format("unknown pass '{}', one of {} was expected", shorten(name, 80), join(names, ", ")), "--after",
         close.empty() ? "`moesh graph --help` tells what each of them does" : "--after " + close.front());
}

void print_after(const session::Session& session, const std::string& name) {
  const train::GraphPass& pass = known_pass(name);
  graph::Graph found;
  program_of(session, [&](std::string_view after, const graph::Graph& graph) {
    if (after == pass.name) found = graph;
  });
  fmt::print("# before {}: {}\n# after {}: {}\n", pass.name, pass.before, pass.name, pass.after);
  print(session, found, pass.says_layouts);
}

std::string words_of(const partition::Choice& choice) {
  return fmt::format("{}{}{} of {}", choice.phase == graph::Phase::backward ? "backward " : "", name_of(choice.op),
                     choice.equation.empty() ? "" : " " + choice.equation, choice.path);
}

void print_choices(const std::vector<partition::Choice>& choices, const mesh::Mesh& mesh) {
  if (choices.empty()) fmt::print("#\n# The partitioner had no choices.\n");
  if (!choices.empty()) fmt::print("#\n# What the partitioner chose, and the next best:\n");
  for (const partition::Choice& choice : choices) {
    fmt::print("# {}\n#   {} for {}\n#   {} for {}\n", words_of(choice), human_seconds(choice.chosen.seconds),
               to_string(choice.chosen, mesh), human_seconds(choice.runner_up.seconds), to_string(choice.runner_up, mesh));
  }
}

void add(JsonWriter& json, const char* key, const partition::Answer& answer, const mesh::Mesh& mesh) {
  const auto specs = [&](const char* name, const std::vector<sharding::Spec>& all) {
    json.key(name).begin_array();
    for (const sharding::Spec& spec : all) json.value(sharding::to_string(spec, mesh));
    json.end_array();
  };
  json.key(key).begin_object();
  specs("operands", answer.operands);
  specs("results", answer.results);
  json.key("seconds").value(answer.seconds).end_object();
}

std::string choices_json(const session::Session& session, const std::vector<partition::Choice>& choices) {
  JsonWriter json;
  json.begin_object().key("request").value(session::headline(session)).key("choices").begin_array();
  for (const partition::Choice& choice : choices) {
    json.line()
        .begin_object()
        .key("path")
        .value(choice.path)
        .key("op")
        .value(name_of(choice.op))
        .key("equation")
        .value(choice.equation);
    json.key("phase").value(name_of(choice.phase));
    add(json, "chosen", choice.chosen, session.mesh);
    add(json, "runner_up", choice.runner_up, session.mesh);
    json.end_object();
  }
  return json.line().end_array().end_object().text();
}

int run_graph(const Arguments& arguments) {
  const What what = asked_for(arguments);
  if (what == What::after) known_pass(*arguments.value("--after"));
  const session::Session session = session::open(request_alone(arguments));
  const bool as_json = arguments.has("--json");
  if (what == What::model) print(session, session.graph, false);
  if (what == What::after) print_after(session, *arguments.value("--after"));
  if (what == What::model || what == What::after) return 0;
  const train::StepProgram program = program_of(session);
  if (what == What::partitioned && as_json) {
    fmt::print("{}\n", choices_json(session, program.choices));
  } else if (what == What::partitioned) {
    print(session, program.graph, true);
    print_choices(program.choices, session.mesh);
  } else {
    fmt::print("{}\n", as_json ? plan::to_json(program.plan)
                               : fmt::format("# {}\n{}", session::headline(session), plan::to_text(program.plan)));
  }
  return 0;
}

std::string passes_help(int width) {
  Table table({{"pass"}, {"before", false, Room::wrap}, {"after", false, Room::wrap}});
  for (const train::GraphPass& pass : train::graph_passes()) {
    table.add({"  " + std::string(pass.name), std::string(pass.before), std::string(pass.after)});
  }
  return table.text(width);
}

}  // namespace

const Command kGraph{
    "graph",
    "[FILE.yml] [key=value ...] [--after PASS | --partitioned | --plan] [--json]",
    "the model as a graph, and what becomes of it until it runs",
    "Without an option it prints the forward pass as it is written once for every mesh: one line a value with its type,\n"
    "global shape, the op that makes it, and the labels of every parameter and of every layout that is asked for. Equal\n"
    "layers stand once, in the body of a repeat. With one it prints a training step: after a pass, on the mesh, or as the\n"
    "plan that runs. Every graph is printed so that it can be read back; lines that begin with # are remarks.",
    kGraphOptions,
    kGraphExamples,
    run_graph,
    passes_help};

}  // namespace moesh::cli
