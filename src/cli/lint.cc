#include "cli/lint.h"

#include <fmt/core.h>

#include "advice/advise.h"
#include "advice/fit.h"
#include "base/json.h"
#include "base/terminal.h"
#include "base/text.h"
#include "session/heading.h"
#include "sharding/dump.h"

namespace moesh::cli {
namespace {

constexpr Option kLintOptions[] = {{"--json", "", "the findings as JSON"}, kFrom, kHuggingFace};

constexpr std::string_view kLintExamples[] = {
    "lint model_name=mixtral-8x7b compile_topology=mi355x-8 ici_expert_parallelism=-1 ici_fsdp_parallelism=1 "
    "sparse_matmul=False capacity_factor=1.25 per_device_batch_size=11",
    "lint --from megatron \"--num-layers 32 --hidden-size 4096 --ffn-hidden-size 14336 --num-attention-heads 32 --swiglu --seq-length 4096 "
    "--micro-batch-size 1 --bf16 --tensor-model-parallel-size 2 --sequence-parallel --use-distributed-optimizer\" compile_topology=h100-8",
    "lint --from torchtitan \"CONFIG=deepseek_v3_16b ./run_train.sh --parallelism.tensor_parallel_degree 2\" compile_topology=h100-16",
    "lint --hf tests/golden/hf/llama compile_topology=v6e-8 per_device_batch_size=1",
};

// A sentence on memory; empty if nothing could be planned or if a finding already reports that the step does not fit, or hardly.
std::string fit_of(const session::Session& session, const advice::Advice& advice) {
  const bool is_told = !advice.forecast || (advice::has_target(session) && (!advice.forecast->fits() || advice.forecast->fits_narrowly()));
  return is_told ? "" : advice::fit_words(session, *advice.forecast);
}

// The JSON members of `lint`, which `shardings --lint` adds to those of the layout.
std::vector<std::pair<std::string, std::string>> members_of(const session::Session& session, const advice::Advice& advice) {
  std::vector<std::pair<std::string, std::string>> members{{"findings", sharding::list_json(advice.findings)},
                                                           {"batch", session::batch_json(session)}};
  if (!advice.forecast) return members;
  JsonWriter memory;
  memory.begin_object().key("peak_bytes_per_device").value(advice.forecast->memory.peak);
  if (advice::has_target(session))
    memory.key("usable_bytes")
        .value(advice.forecast->usable_memory)
        .key("fits")
        .value(advice.forecast->fits())
        .key("fits_narrowly")
        .value(advice.forecast->fits_narrowly());
  members.emplace_back("memory", memory.end_object().text());
  return members;
}

}  // namespace

int run_lint(const Arguments& arguments) {
  // Dims that do not divide evenly are findings here instead of ending the command.
  const std::vector<std::string>& request = request_alone(arguments);
  const session::Session session = session::run_by(arguments.engine(), session::open(request, session::Evenness::reported));
  const advice::Advice advice = advice::advise(arguments.changeable(), session);
  if (!arguments.has("--json")) {
    const int width = terminal_width();
    fmt::print("{}\n{}", wrapped(session::heading(session) + "\n" + fit_of(session, advice), width, 2),
               sharding::to_text(advice.findings, width));
  } else if (arguments.has("--lint")) {
    fmt::print("{}", sharding::to_json(session.layout, members_of(session, advice)));
  } else {
    JsonWriter json;
    json.begin_object();
    for (const auto& [key, text] : members_of(session, advice)) json.line().key(key).raw(text);
    json.line().end_object();
    fmt::print("{}\n", json.text());
  }
  return sharding::has_errors(advice.findings) ? 1 : 0;
}

const Command kLint{"lint",
                    "[FILE.yml] [key=value ...] [--json]",
                    "what is odd about a layout, with a fix for each finding",
                    "Looks at a request for what costs memory or time, or will not run: a step that does not fit, "
                    "or hardly; sizes that do not divide; a batch smaller than its axes; state that is whole on "
                    "every device, because a rule leaves out an axis or none names its labels; work and memory "
                    "that devices repeat; traffic over slow links in every layer; waits for communication that "
                    "other axis sizes would save; products in float32; dims of one value that compete for an "
                    "axis; rules of yours that never apply or name axes that the mesh lacks; dearer ways to "
                    "experts; pipeline stages.\n\n"
                    "Each cause is told once. Each fix was planned: added to the command, it ends its finding, or "
                    "makes a step that waits at least 1.2 times as fast, and it adds no error. Where another error "
                    "is in the way, its fix is part of it. If no step could be planned before, the fixed one may "
                    "still not fit; that is said. Layouts with pipeline stages are only laid out. What costs time or memory "
                    "is told only where some change helps, or where a slow link takes most of the step.\n\n"
                    "The exit code is 1 when a finding is an error.",
                    kLintOptions,
                    kLintExamples,
                    run_lint};

}  // namespace moesh::cli
