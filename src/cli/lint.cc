#include "cli/lint.h"

#include <fmt/core.h>

#include "base/error.h"
#include "base/terminal.h"
#include "base/text.h"
#include "session/session.h"
#include "sharding/dump.h"
#include "sharding/lint.h"

namespace moesh::cli {
namespace {

constexpr Option kOptions[] = {{"--json", "", "the findings as JSON"}};

constexpr std::string_view kExamples[] = {
    "lint model_name=mixtral-8x7b compile_topology=mi355x-8 ici_expert_parallelism=-1 ici_fsdp_parallelism=1 "
    "sparse_matmul=False capacity_factor=1.25 per_device_batch_size=11",
};

}  // namespace

int run_lint(const Arguments& arguments) {
  // What does not divide is a finding here, not the end.
  const session::Session session = session::open(request_alone(arguments), session::Evenness::reported);
  const std::vector<sharding::Finding> findings = sharding::lint(session.layout, {session.batch.micro_rows});
  if (!arguments.has("--json")) {
    const int width = terminal_width();
    fmt::print("{}\n\n{}", wrapped(session::headline(session), width, 2), sharding::to_text(findings, width));
  } else if (arguments.has("--lint")) {
    fmt::print("{}", sharding::to_json(session.layout, {{"findings", sharding::list_json(findings)}}));
  } else {
    fmt::print("{}", sharding::to_json(findings));
  }
  return sharding::has_errors(findings) ? 1 : 0;
}

const Command kLint{
    "lint",
    "[FILE.yml] [key=value ...] [--json]",
    "what is odd about a layout, with a fix for each finding",
    "Looks for rules that never apply or name axes that the mesh lacks, labels without a rule, axes that shard\n"
    "nothing, dims of one value that compete for an axis, large tensors left whole, sizes that do not divide, batches\n"
    "smaller than their axes, and pipeline stages, which are not run.\n"
    "Exit code 1 when a finding is an error.",
    kOptions,
    kExamples,
    run_lint};

}  // namespace moesh::cli
