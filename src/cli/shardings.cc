#include <fmt/core.h>

#include "base/error.h"
#include "base/terminal.h"
#include "base/text.h"
#include "cli/command.h"
#include "cli/lint.h"
#include "cli/planned_run.h"
#include "session/heading.h"
#include "sharding/diff.h"
#include "sharding/dump.h"
#include "sharding/report.h"
#include "train/offload.h"

namespace moesh::cli {
namespace {

constexpr Option kShardingsOptions[] = {
    {"--activations", "", "list activations too; with --diff those that move beside state"},
    {"--filter", "TEXT", "only tensors whose path holds TEXT, or that bear it as a label; with --diff sums are of these alone"},
    {"--json", "", "everything as JSON, in the format of the reference's dumps; with --lint also its findings"},
    {"--diff", "KEY=VALUE...", "what these changes move, what has to travel for it, and the bytes they save or cost a device"},
    {"--lint", "", "what is odd about the layout, as `moesh lint`"},
    kDecodeStep,
    kPrefillStep,
    kFrom,
    kHuggingFace,
};

constexpr std::string_view kShardingsExamples[] = {
    "shardings model_name=mixtral-8x7b compile_topology=v6e-64 ici_expert_parallelism=4 per_device_batch_size=4",
    "shardings model_name=deepseek3-671b compile_topology=tpu7x-256 custom_mesh_and_rule=ep-as-cp "
    "ici_expert_parallelism=8 --filter attention",
    "shardings --decode model_name=deepseek3-671b compile_topology=h200-16 ici_tensor_parallelism=16 ici_fsdp_parallelism=1 --filter cache",
    "shardings model_name=llama2-7b compile_topology=v5p-16 --diff ici_fsdp_parallelism=4 ici_tensor_parallelism=2",
};

std::string filter_of(const Arguments& arguments) { return arguments.value("--filter").value_or(""); }

// The difference of the two layouts, limited to tensors that match the filter. A tensor may be on one side only.
sharding::LayoutDiff filtered_diff(const session::Session& before, const session::Session& after, const std::string& filter) {
  if (filter.empty()) return sharding::diff(before.layout, after.layout);
  if (!sharding::has_match(before.layout, filter)) sharding::check_filter(after.layout, filter);
  return sharding::diff(sharding::filtered(before.layout, filter), sharding::filtered(after.layout, filter));
}

int show_diff(const session::Session& before, const Arguments& arguments) {
  std::vector<std::string> request = arguments.request();
  for (const std::string& change : arguments.values("--diff")) request.push_back(change);
  const session::Session after = session::open(request);
  const sharding::LayoutDiff diff = filtered_diff(before, after, filter_of(arguments));
  if (arguments.has("--json")) {
    fmt::print("{}", sharding::to_json(diff));
    return 0;
  }
  const int width = terminal_width();
  const std::string heads = fmt::format("before: {}\nafter:  {}\n\n", session::headline(before), session::headline(after));
  fmt::print("{}{}", wrapped(heads, width, 8), to_text(diff, {arguments.has("--activations"), width, filter_of(arguments)}));
  return 0;
}

void check_lint_alone(const Arguments& arguments) {
  for (const char* option : {"--filter", "--diff", "--activations"}) {
    if (arguments.has(option)) {
      refuse(fmt::format("--lint looks at the whole layout, so {} has no effect beside it", option), kCommandLine,
             fmt::format("leave out --lint or {}", option));
    }
  }
}

void check_decoding_alone(const Arguments& arguments) {
  for (const char* option : {"--diff", "--lint"}) {
    if (arguments.has(option)) {
      refuse(fmt::format("{} looks at training, not at decoding", option), kCommandLine,
             "leave it out; `moesh search --decode ...` finds layouts, `moesh compile --decode ... --diff KEY=VALUE...` compares two");
    }
  }
}

int run_shardings(const Arguments& arguments) {
  const std::vector<std::string>& request = request_alone(arguments, "`moesh shardings --help` shows examples");
  const std::optional<session::DecodeStage> stage = decode_stage(arguments);
  if (stage) check_decoding_alone(arguments);
  if (arguments.has("--lint")) {
    check_lint_alone(arguments);
    return run_lint(arguments);
  }
  const session::Session session = open_run(request, stage, session::Evenness::demanded, arguments.engine());
  if (arguments.has("--diff")) return show_diff(session, arguments);
  if (arguments.has("--json")) {
    sharding::check_filter(session.layout, filter_of(arguments));
    const sharding::Layout kept = sharding::filtered(session.layout, filter_of(arguments));
    fmt::print("{}", sharding::to_json(kept, {{"batch", session::batch_json(session)}}));
    return 0;
  }
  const int width = terminal_width();
  const bool has_moments_on_host = !stage && train::keeps_moments_on_host(session.loaded.settings, session.target.chip);
  const sharding::ReportOptions options{filter_of(arguments), arguments.has("--activations"), width, has_moments_on_host};
  fmt::print("{}\n\n{}{}", wrapped(session::heading(session), width, 2), sharding::report(session.layout, options),
             wrapped(fit_words(session), width, 2));
  return 0;
}

}  // namespace

const Command kShardings{
    "shardings",
    "[FILE.yml] [key=value ...] [--decode|--prefill] [--activations] [--filter TEXT] [--json] [--diff KEY=VALUE...] [--lint]",
    "where every parameter, activation and optimizer state lies",
    "Prints, for a configuration, where every parameter lies on the mesh: global shape, labels, the axes that shard\n"
    "each dim, bytes a device and on how many devices each shard stands, and at the end what a training step takes and whether\n"
    "it fits the target. With --decode or --prefill the KV cache is listed instead of optimizer state. No device is needed.",
    kShardingsOptions,
    kShardingsExamples,
    run_shardings};

}  // namespace moesh::cli
