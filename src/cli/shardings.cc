#include <fmt/core.h>

#include "base/error.h"
#include "base/table.h"
#include "base/text.h"
#include "cli/command.h"
#include "cli/lint.h"
#include "cli/session.h"
#include "sharding/diff.h"
#include "sharding/dump.h"
#include "sharding/report.h"

namespace moesh::cli {
namespace {

constexpr Option kOptions[] = {
    {"--activations", "", "list activations too"},
    {"--filter", "TEXT", "only tensors whose path holds TEXT, or that bear it as a label"},
    {"--json", "", "everything as JSON, in the format of the reference's dumps"},
    {"--diff", "KEY=VALUE...", "what these changes move, and the bytes they save or cost a device"},
    {"--lint", "", "what is odd about the layout, as `moesh lint`"},
};

constexpr std::string_view kExamples[] = {
    "shardings model_name=mixtral-8x7b compile_topology=v6e-8 ici_expert_parallelism=4 ici_fsdp_parallelism=2",
    "shardings model_name=deepseek3-671b compile_topology=tpu7x-256 custom_mesh_and_rule=ep-as-cp "
    "ici_expert_parallelism=8 --filter attention",
    "shardings model_name=llama2-7b compile_topology=v5p-16 --diff ici_fsdp_parallelism=4 ici_tensor_parallelism=2",
};

int show_diff(const Session& before, const Arguments& arguments) {
  std::vector<std::string> request = arguments.request();
  for (const std::string& change : arguments.values("--diff")) request.push_back(change);
  const Session after = open_session(request);
  const sharding::LayoutDiff diff = sharding::diff(before.layout, after.layout);
  if (arguments.has("--json")) {
    fmt::print("{}", sharding::to_json(diff));
    return 0;
  }
  fmt::print("before: {}\nafter:  {}\n\n{}", headline(before), headline(after), to_text(diff, terminal_width()));
  return 0;
}

int run(const Arguments& arguments) {
  const std::vector<std::string>& request = request_alone(arguments, "`moesh shardings --help` shows examples");
  if (arguments.has("--lint")) return run_lint(arguments);
  const Session session = open_session(request);
  if (arguments.has("--diff")) return show_diff(session, arguments);
  if (arguments.has("--json")) {
    fmt::print("{}", sharding::to_json(session.layout));
    return 0;
  }
  const sharding::ReportOptions options{arguments.value("--filter").value_or(""), arguments.has("--activations"),
                                        terminal_width()};
  fmt::print("{}\n\n{}", headline(session), sharding::report(session.layout, options));
  return 0;
}

}  // namespace

const Command kShardings{
    "shardings",
    "[FILE.yml] [key=value ...] [--activations] [--filter TEXT] [--json] [--diff KEY=VALUE...] [--lint]",
    "where every parameter, activation and optimizer state lies",
    "Prints, for a configuration, where every parameter lies on the mesh: global shape, labels, the axes that shard\n"
    "each dim, bytes a device and on how many devices each shard stands. Nothing is compiled and no device is needed.",
    kOptions,
    kExamples,
    run};

}  // namespace moesh::cli
