#include <optional>
#include <vector>

#include <fmt/core.h>

#include "base/error.h"
#include "base/json.h"
#include "base/terminal.h"
#include "base/text.h"
#include "cli/bench_decode.h"
#include "cli/bench_kernels.h"
#include "cli/bench_plot.h"
#include "cli/command.h"
#include "cli/rates_words.h"
#include "cli/times_words.h"
#include "cli/typical_step.h"
#include "measure/profile.h"
#include "measure/rates.h"
#include "session/session.h"
#include "sharding/tolerance.h"
#include "train/model_size.h"

namespace moesh::cli {
namespace {

constexpr Option kBenchOptions[] = {
    {"--all", "", "every instruction of the step, not kinds of them"},
    {"--only", "TEXT", "of `bench kernels`: those that have this text in their name"},
    {"--json", "", "the same as JSON"},
    kPlot,
    kThreads,
};

constexpr std::string_view kBenchExamples[] = {
    "bench configs/first.yml steps=3",
    "bench prefill model_name=mixtral-8x7b override_model_config=true base_num_decoder_layers=1 base_emb_dim=256 base_mlp_dim=512 "
    "base_moe_mlp_dim=512 vocab_size=4096 compile_topology=cpu-8 ici_expert_parallelism=8 ici_fsdp_parallelism=1 "
    "custom_mesh_and_rule=ep-tp use_ring_of_experts=true per_device_batch_size=1 max_target_length=32 steps=5",
    "bench decode model_name=llama2-7b override_model_config=true base_num_decoder_layers=2 base_emb_dim=512 base_mlp_dim=1024 "
    "per_device_batch_size=1 max_target_length=64 steps=32",
    "bench kernels --only projection --plot kernels.svg",
    "bench model_name=deepseek3-tiny override_model_config=true base_num_decoder_layers=2 first_num_dense_layers=1 vocab_size=256 "
    "dataset_type=synthetic ici_fsdp_parallelism=2 per_device_batch_size=1 max_target_length=64 steps=3 --all",
};

struct Measured {
  double seconds = 0;  // duration of the median step
  double tokens = 0;
  double model_flops = 0;
  std::vector<measure::KindTime> times;
  measure::MachineRates rates;
  std::optional<double> predicted;  // predicted seconds, if the target is a measured machine
};

Measured measure_step(const session::Session& session, int threads, bool by_instruction) {
  const config::Settings& settings = session.loaded.settings;
  backend::Workers workers(threads);
  const TypicalStep step(session, timed_steps(settings), workers);
  const cost::Network network(session.mesh, session.target);
  const std::vector<forecast::Timing> timings = forecast::timings_of(step.plan(), network);
  const std::int64_t length = settings.integer("max_target_length"), tokens = session.batch.rows_to_train * length;
  Measured made;
  made.seconds = step.seconds();
  made.tokens = static_cast<double>(tokens);
  made.model_flops = train::model_size(session.graph, session.shape, tokens, length).step_flops;
  made.times = by_instruction ? measure::times_by_instruction(step.plan(), timings, step.spans())
                              : measure::times_by_kind(step.plan(), timings, step.spans());
  if (session.target.chip.is_shared_machine()) made.predicted = measure::planned_seconds(made.times);
  made.rates = measure::measure_rates(workers);
  return made;
}

std::string summary_of(const Measured& of) {
  const double flops = of.model_flops / of.seconds;
  const std::string predicted = of.predicted ? fmt::format("Predicted from what was measured of this machine: {:.1f} ms, {:.2f} of that.\n",
                                                           *of.predicted * 1e3, *of.predicted / of.seconds)
                                             : "";
  return predicted + fmt::format("{:.1f} ms a step, {:.0f} tokens/s, {:.1f} GFLOP/s of the model, {:.0f}% of the large product in float32, "
                     "{:.0f}% in bfloat16\n",
                     of.seconds * 1e3, of.tokens / of.seconds, flops / 1e9, 100 * flops / of.rates.float32.large,
                     100 * flops / of.rates.bfloat16.large) +
         rates_words(of.rates);
}

std::string words_of(const Measured& of, int width) {
  return times_words(of.times, of.seconds, width) + "\n" + wrapped(summary_of(of), width, 2);
}

std::string json_of(const Measured& of) {
  JsonWriter json;
  json.begin_object().key("seconds_per_step").value(of.seconds);
  if (of.predicted) json.key("predicted_seconds_per_step").value(*of.predicted);
  json.key("tokens_per_second").value(of.tokens / of.seconds).key("model_flops").value(of.model_flops);
  json.line().key("machine");
  add(json, of.rates);
  json.line().key("instructions");
  add(json, of.times);
  return json.line().end_object().text();
}

int run_bench(const Arguments& arguments) {
  if (arguments.words() == std::vector<std::string>{"kernels"}) return bench_kernels(arguments);
  if (arguments.has("--only")) refuse("--only without `kernels`", kCommandLine, "moesh bench kernels --only TEXT");
  if (arguments.words() == std::vector<std::string>{"decode"}) return bench_decode(arguments, DecodeStage::token);
  if (arguments.words() == std::vector<std::string>{"prefill"}) return bench_decode(arguments, DecodeStage::prompt);
  const bool names_step = arguments.words() == std::vector<std::string>{"step"};
  const std::vector<std::string>& request =
      names_step ? arguments.request() : request_alone(arguments, "`moesh bench --help` shows examples");
  const session::Session session = session::open_to_run(request, config::Run::training);
  sharding::check_tolerance(session.layout, session.loaded.settings);
  const Measured measured = measure_step(session, threads_of(arguments), arguments.has("--all"));
  if (arguments.has("--json")) {
    fmt::print("{}\n", json_of(measured));
  } else {
    const int width = terminal_width();
    fmt::print("{}\n{}", wrapped(session::headline(session) + "\n", width, 2), words_of(measured, width));
  }
  draw(arguments, [&] {
    return bars_of(measured.times, measured.seconds,
                   fmt::format("A training step: {:.1f} ms. {}", measured.seconds * 1e3, session::headline(session)));
  });
  return 0;
}

}  // namespace

const Command kBench{
    "bench",
    "kernels | [step|decode|prefill] [FILE.yml] [key=value ...] [--all] [--json] [--plot FILE] [--threads N]",
    "where the time of a training step goes on this machine, or how fast its kernels are",
    "Trains some steps, `steps` of them (10 if nobody says) after a first one, and shows the one that took the middle of the\n"
    "times: what its instructions took by kind, at what rates, and what the plan says that they take on the hardware it is made\n"
    "for. Below stand the rates that this machine reaches at most, measured at once: of multiplications whose operands stay in the\n"
    "first cache, of a large product, and of a copy.\n"
    "`bench decode` does the same with tokens that follow each other, one of each of per_device_batch_size rows a step, on initial\n"
    "weights; `bench prefill` with prompts of max_prefill_predict_length tokens.\n"
    "`bench kernels` times kernels one by one, in both types, and says what part that is of what they could reach at most: the time that\n"
    "their operations take at the rate of the large product, or their bytes at that of the copy. If OpenBLAS or oneDNN is installed, "
    "float32\n"
    "products take turns with it.",
    kBenchOptions,
    kBenchExamples,
    run_bench};

}  // namespace moesh::cli
