#include <algorithm>

#include <fmt/core.h>

#include "base/error.h"
#include "base/terminal.h"
#include "base/text.h"
#include "cli/command.h"
#include "cli/planned_run.h"
#include "forecast/explain.h"
#include "session/heading.h"
#include "sharding/why.h"

namespace moesh::cli {
namespace {

constexpr Option kWhyOptions[] = {
    {"--at", "WORDS", "collectives instead, by what is in their paths, kinds and axes: \"MoeBlock_0 all-gather\"; the dearest first"},
    {"--json", "", "the explanation as JSON"},
    kDecodeStep,
    kPrefillStep,
    kFrom,
    kHuggingFace,
};

constexpr std::string_view kWhyExamples[] = {
    "why token_embedder/embedding model_name=llama3-8b compile_topology=v6e-8 ici_tensor_parallelism=4",
    "why dispatched model_name=mixtral-8x7b compile_topology=v6e-64 ici_expert_parallelism=4 per_device_batch_size=4 "
    "sparse_matmul=False capacity_factor=1.25",
    "why c7 model_name=llama2-7b compile_topology=v5p-16 ici_fsdp_parallelism=8",
    "why --at mlp/wi_0 model_name=llama2-7b compile_topology=v5p-16 ici_fsdp_parallelism=8",
};

constexpr std::size_t kMostListed = 12, kMostExplained = 3;

const sharding::LaidTensor& find_one(const sharding::Layout& layout, const std::string& name) {
  const auto found = sharding::find_tensors(layout, name);
  if (found.size() == 1) return *found.front();
  std::vector<std::string> paths;
  if (found.empty()) {
    for (const auto* tensors : {&layout.parameters, &layout.activations, &layout.states}) {
      for (const sharding::LaidTensor& tensor : *tensors) paths.push_back(tensor.path);
    }
    const std::vector<std::string> close = nearest(name, paths);
    refuse(
        fmt::format("no tensor's path holds '{}'", shorten(name, 80)), kCommandLine,
        close.empty() ? "`moesh shardings --activations` lists all paths" : "did you mean " + join(close, ", ") + "?");
  }
  for (const sharding::LaidTensor* tensor : found) paths.push_back(tensor->path);
  refuse(fmt::format("'{}' is part of {} paths: {}", name, found.size(), few_of(paths, kMostListed)), kCommandLine,
         "name one of them whole");
}

// Whether the word is a name like "c12", which `moesh compile` gives to collectives.
bool names_collective(const std::string& word) {
  return word.size() > 1 && word[0] == 'c' && word.find_first_not_of("0123456789", 1) == std::string::npos;
}

// Explains the first few collectives and lists the others by name.
void print(const PlannedRun& planned, const std::vector<const forecast::Sent*>& found, bool as_json) {
  const mesh::Mesh& mesh = planned.session.mesh;
  const std::size_t shown = std::min(kMostExplained, found.size());
  std::vector<std::string> others;
  for (std::size_t i = shown; i < found.size(); ++i) others.push_back(found[i]->name);
  if (as_json) {
    JsonWriter json;
    json.begin_object().key("collectives").begin_array();
    for (std::size_t i = 0; i < shown; ++i) write(explain(*found[i], planned.plan, planned.choices), mesh, json.line());
    json.line().end_array().line().key("others").values(others).end_object();
    fmt::print("{}\n", json.text());
    return;
  }
  const int width = terminal_width();
  std::string text = wrapped(session::heading(planned.session), width, 2) + "\n";
  for (std::size_t i = 0; i < shown; ++i) text += "\n" + to_text(explain(*found[i], planned.plan, planned.choices), mesh, width);
  if (!others.empty()) {
    const std::string words = fmt::format("Cheaper ones: {}; `moesh why {} {}...` tells of one.\n", few_of(others, kMostListed), others[0],
                                          forecast::option_words(planned.forecast));
    text += "\n" + wrapped(words, width, 2);
  }
  fmt::print("{}", text);
}

int explain_at(const Arguments& arguments) {
  if (!arguments.words().empty())
    refuse(fmt::format("--at finds collectives, so '{}' has no place beside it", shorten(arguments.words().front(), 80)),
           kCommandLine, "put it into --at \"WORDS\", or leave --at out");
  const PlannedRun planned = plan_run(arguments.request(), decode_stage(arguments), arguments.engine());
  print(planned, forecast::sent_at(planned.forecast, *arguments.value("--at")), arguments.has("--json"));
  return 0;
}

int explain_collective(const Arguments& arguments) {
  const PlannedRun planned = plan_run(arguments.request(), decode_stage(arguments), arguments.engine());
  const forecast::Sent& sent = forecast::sent_named(planned.forecast, arguments.words().front());
  if (!arguments.has("--json")) {
    print(planned, {&sent}, false);
    return 0;
  }
  JsonWriter json;
  write(explain(sent, planned.plan, planned.choices), planned.session.mesh, json);
  fmt::print("{}\n", json.text());
  return 0;
}

int run_why(const Arguments& arguments) {
  if (arguments.has("--at")) return explain_at(arguments);
  if (arguments.words().size() != 1) {
    refuse(fmt::format("{} tensors are named, one was expected", arguments.words().size()), kCommandLine,
           "moesh why TENSOR [FILE.yml] [key=value ...]");
  }
  if (names_collective(arguments.words().front())) return explain_collective(arguments);
  const session::Session session = open_run(arguments.request(), decode_stage(arguments), session::Evenness::demanded, arguments.engine());
  const sharding::LaidTensor& tensor = find_one(session.layout, arguments.words().front());
  if (arguments.has("--json")) {
    const std::string fit = fit_words(session);
    fmt::print("{}", sharding::why_json(session.layout, tensor, {{"request", session::heading(session)}, {"fit", std::string(trim(fit))}}));
  } else {
    const int width = terminal_width();
    fmt::print("{}\n\n{}\n{}", wrapped(session::heading(session), width, 2), sharding::why(session.layout, tensor, width),
               wrapped(fit_words(session), width, 2));
  }
  return 0;
}

}  // namespace

const Command kWhy{
    "why",
    "TENSOR|COLLECTIVE|--at WORDS [FILE.yml] [key=value ...] [--decode|--prefill] [--json]",
    "which rule put a tensor there, or why a collective is there",
    "Walks the rules in order for one tensor: which took which dim, which were passed over and for what, and the\n"
    "fallback that won. Then what makes it and what uses it, across layers, and where those lie differently, the axes that are\n"
    "left unused and how many copies that makes, and whether a training step fits the target.\n"
    "TENSOR is a path as `moesh shardings --activations` prints it, or a part that only one path holds; mu/PATH and nu/PATH\n"
    "are the moments of a parameter.\n"
    "COLLECTIVE is a name as `moesh compile` lists it, such as c7: what it moves, who made that and who reads it, and what the\n"
    "partitioner chose there, with its price and that of the next best. --at finds collectives by words instead: parts of the\n"
    "path that they are made for, their kind, their axes, forward or backward.",
    kWhyOptions,
    kWhyExamples,
    run_why};

}  // namespace moesh::cli
