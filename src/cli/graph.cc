#include <fmt/core.h>

#include "base/error.h"
#include "base/text.h"
#include "cli/command.h"
#include "graph/print.h"
#include "session/session.h"

namespace moesh::cli {
namespace {

constexpr std::string_view kExamples[] = {
    "graph model_name=mixtral-8x7b",
    "graph model_name=deepseek3-tiny sparse_matmul=False capacity_factor=1.25",
};

int run(const Arguments& arguments) {
  const session::Session session = session::open(request_alone(arguments));
  const graph::GraphCounts counts = graph::count(session.graph);
  fmt::print("# {}\n# {} nodes, {} parameters, {} layouts asked for; global shapes\n{}", session::headline(session),
             counts.nodes, counts.parameters, counts.constraints, graph::to_text(session.graph));
  return 0;
}

}  // namespace

const Command kGraph{
    "graph",
    "[FILE.yml] [key=value ...]",
    "the model as a graph on global shapes",
    "Prints the forward pass as it is written once for every mesh: one line a value with its type, global shape, the\n"
    "op that makes it, and the labels of every parameter and of every layout that is asked for. Equal layers stand\n"
    "once, in the body of a repeat.",
    {},
    kExamples,
    run};

}  // namespace moesh::cli
