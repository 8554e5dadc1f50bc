#include <fmt/core.h>

#include "advice/fit.h"
#include "base/error.h"
#include "base/terminal.h"
#include "base/text.h"
#include "cli/command.h"
#include "forecast/explain.h"
#include "session/heading.h"
#include "sharding/why.h"

namespace moesh::cli {
namespace {

constexpr Option kOptions[] = {{"--json", "", "the explanation as JSON"}, kFrom, kHuggingFace};

constexpr std::string_view kExamples[] = {
    "why token_embedder/embedding model_name=llama3-8b compile_topology=v6e-8 ici_tensor_parallelism=4",
    "why dispatched model_name=mixtral-8x7b compile_topology=v6e-64 ici_expert_parallelism=4 per_device_batch_size=4 "
    "sparse_matmul=False capacity_factor=1.25",
    "why c7 model_name=llama2-7b compile_topology=v5p-16 ici_fsdp_parallelism=8",
};

constexpr std::size_t kMostListed = 12;

const sharding::LaidTensor& find_one(const sharding::Layout& layout, const std::string& name) {
  const auto found = sharding::find_tensors(layout, name);
  if (found.size() == 1) return *found.front();
  std::vector<std::string> paths;
  if (found.empty()) {
    for (const sharding::LaidTensor& tensor : layout.parameters) paths.push_back(tensor.path);
    for (const sharding::LaidTensor& tensor : layout.activations) paths.push_back(tensor.path);
    const std::vector<std::string> close = nearest(name, paths);
    refuse(
        fmt::format("no tensor's path holds '{}'", shorten(name, 80)), "the command line",
        close.empty() ? "`moesh shardings --activations` lists all paths" : "did you mean " + join(close, ", ") + "?");
  }
  for (const sharding::LaidTensor* tensor : found) paths.push_back(tensor->path);
  const std::string more = paths.size() > kMostListed ? fmt::format(" and {} more", paths.size() - kMostListed) : "";
  if (paths.size() > kMostListed) paths.resize(kMostListed);
  refuse(fmt::format("'{}' is part of {} paths: {}{}", name, found.size(), join(paths, ", "), more), "the command line",
         "name one of them whole");
}

// "c12", as `moesh compile` names collectives.
bool names_collective(const std::string& word) {
  return word.size() > 1 && word[0] == 'c' && word.find_first_not_of("0123456789", 1) == std::string::npos;
}

int explain_collective(const Arguments& arguments) {
  const advice::Planned planned = advice::plan_step(arguments.request());
  const forecast::Explanation explanation =
      forecast::explain(planned.step.forecast, planned.step.program.plan, planned.step.program.choices, arguments.words().front());
  if (arguments.has("--json")) {
    fmt::print("{}", forecast::to_json(explanation, planned.session.mesh));
  } else {
    const int width = terminal_width();
    fmt::print("{}\n\n{}", wrapped(session::heading(planned.session), width, 2),
               forecast::to_text(explanation, planned.session.mesh, width));
  }
  return 0;
}

int run(const Arguments& arguments) {
  if (arguments.words().size() != 1) {
    refuse(fmt::format("{} tensors are named, one was expected", arguments.words().size()), "the command line",
           "moesh why TENSOR [FILE.yml] [key=value ...]");
  }
  if (names_collective(arguments.words().front())) return explain_collective(arguments);
  const session::Session session = session::open(arguments.request());
  const sharding::LaidTensor& tensor = find_one(session.layout, arguments.words().front());
  if (arguments.has("--json")) {
    fmt::print("{}", sharding::why_json(session.layout, tensor));
  } else {
    const int width = terminal_width();
    fmt::print("{}\n\n{}\n{}", wrapped(session::heading(session), width, 2), sharding::why(session.layout, tensor, width),
               wrapped(advice::fit_words(session), width, 2));
  }
  return 0;
}

}  // namespace

const Command kWhy{
    "why",
    "TENSOR|COLLECTIVE [FILE.yml] [key=value ...] [--json]",
    "which rule put a tensor there, or why a collective is there",
    "Walks the rules in order for one tensor: which took which dim, which were passed over and for what, and the\n"
    "fallback that won. Then what makes it and what uses it, across layers, and where those lie differently, the axes that are\n"
    "left unused and how many copies that makes, and whether a training step fits the target.\n"
    "TENSOR is a path as `moesh shardings --activations` prints it, or a part that only one path holds.\n"
    "COLLECTIVE is a name as `moesh compile` lists it, such as c7: what it moves, who made that and who reads it, and what the\n"
    "partitioner chose there, with its price and that of the next best.",
    kOptions,
    kExamples,
    run};

}  // namespace moesh::cli
