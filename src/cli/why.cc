#include <fmt/core.h>

#include "base/error.h"
#include "base/terminal.h"
#include "base/text.h"
#include "cli/command.h"
#include "session/session.h"
#include "sharding/why.h"

namespace moesh::cli {
namespace {

constexpr Option kOptions[] = {{"--json", "", "the explanation as JSON"}};

constexpr std::string_view kExamples[] = {
    "why token_embedder/embedding model_name=llama3-8b compile_topology=v6e-8 ici_tensor_parallelism=4",
    "why dispatched model_name=mixtral-8x7b compile_topology=v6e-8 ici_expert_parallelism=4 sparse_matmul=False "
    "capacity_factor=1.25",
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

int run(const Arguments& arguments) {
  if (arguments.words().size() != 1) {
    refuse(fmt::format("{} tensors are named, one was expected", arguments.words().size()), "the command line",
           "moesh why TENSOR [FILE.yml] [key=value ...]");
  }
  const session::Session session = session::open(arguments.request(), session::Evenness::reported);
  const sharding::LaidTensor& tensor = find_one(session.layout, arguments.words().front());
  if (arguments.has("--json")) {
    fmt::print("{}", sharding::why_json(session.layout, tensor));
  } else {
    const int width = terminal_width();
    fmt::print("{}\n\n{}", wrapped(session::headline(session), width, 2), sharding::why(session.layout, tensor, width));
  }
  return 0;
}

}  // namespace

const Command kWhy{
    "why",
    "TENSOR [FILE.yml] [key=value ...] [--json]",
    "which rule put a tensor there, what lost, and what it costs",
    "Walks the rules in order for one tensor: which took which dim, which were passed over and for what, and the\n"
    "fallback that won. For an activation also what makes it and what uses it, and where those lie differently.\n"
    "TENSOR is a path as `moesh shardings --activations` prints it, or a part that only one path holds.",
    kOptions,
    kExamples,
    run};

}  // namespace moesh::cli
