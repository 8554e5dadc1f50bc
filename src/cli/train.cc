#include <filesystem>

#include <fmt/core.h>

#include "base/error.h"
#include "base/log.h"
#include "base/progress.h"
#include "base/streams.h"
#include "base/text.h"
#include "cli/command.h"
#include "cli/failure.h"
#include "cli/launch.h"
#include "session/session.h"
#include "sharding/tolerance.h"
#include "store/folder.h"
#include "train/loop.h"
#include "train/run_folder.h"
#include "transport/processes.h"

namespace moesh::cli {
namespace {

constexpr Option kTrainOptions[] = {
    {"--audit", "", "prints at the end what the run exchanged and held beside what its plan said"},
    {"--processes", "N", "spreads the mesh's devices over N processes, which mpirun starts here; under mpirun or srun it is left out"},
    {"--restarts", "K", "starts the run again, from its newest checkpoint, up to K times when it ends badly; needs enable_checkpointing"},
    {"--check-collectives", "", "of several processes: asks before each collective whether all are about to do the same"},
    {"--from", "STEP", "goes on from the run's checkpoint of that step, not from its newest; later ones are set aside"},
    {"--quiet", "", "prints only how the run ended"},
    {"--json", "", "prints the lines of metrics.jsonl as they are written, and nothing else"},
    kSkew,
    kThreads,
};

constexpr std::string_view kTrainExamples[] = {
    "train steps=5",
    "train steps=2 model_name=deepseek3-tiny override_model_config=true base_num_decoder_layers=2 first_num_dense_layers=1 "
    "vocab_size=256 dataset_type=synthetic ici_fsdp_parallelism=2 per_device_batch_size=1 "
    "max_target_length=64",
    "train configs/first.yml steps=5 use_ring_of_experts=true --skew 1.5",
    "train configs/first.yml steps=2 owners=4 --audit",
    "train configs/first.yml run_name=kept enable_checkpointing=true checkpoint_period=2 steps=4",
    "train configs/first.yml steps=3 eval_interval=2 eval_fraction=0.05 eval_steps=2",
};

constexpr const char* kFirst = "configs/first.yml";

constexpr const char* kNext =
    "  ./moesh train configs/first.yml steps=200         goes on for longer; the file is a good one to copy\n"
    "  ./moesh train configs/first.yml ici_fsdp_parallelism=8 ici_expert_parallelism=1\n"
    "                                                    the same losses on another mesh\n"
    "  ./moesh train configs/first.yml custom_mesh_and_rule=ep-tp\n"
    "                                                    the same losses under other rules\n"
    "  ./moesh shardings configs/first.yml               where every tensor of it lies\n";

struct Request {
  std::vector<std::string> words;
  std::string about;  // a line on what the request is based on, if the user did not say
  bool is_first = false;
};

// A request that names no model is put after the example configs/first.yml; one that does is taken as it is.
Request based(const std::vector<std::string>& words) {
  using By = config::ModelNaming::By;
  const config::ModelNaming naming = config::what_names_the_model(words);
  if (naming.by == By::nothing) {
    Request first{{kFirst}, fmt::format("{}, as neither a file nor a model is named\n", kFirst), true};
    first.words.insert(first.words.end(), words.begin(), words.end());
    return first;
  }
  return {words, naming.by == By::sizes ? fmt::format("the built-in base.yml, as {} is given\n", naming.words) : "", false};
}

std::optional<std::int64_t> step_to_go_on_from(const Arguments& arguments) {
  const std::optional<std::string> given = arguments.value("--from");
  if (!given) return std::nullopt;
  const std::optional<std::int64_t> step = parse_integer(*given);
  if (!step || *step < 0)
    refuse(fmt::format("--from {}: not a step", shorten(*given, 40)), kCommandLine,
           "`moesh checkpoint ls RUN` tells those there are");
  return step;
}

train::Printed printed_of(const Arguments& arguments) {
  std::vector<std::string> given;
  for (const char* option : {"--quiet", "--json", "--audit"}) {
    if (arguments.has(option)) given.emplace_back(option);
  }
  if (given.size() > 1) refuse(fmt::format("{} and {}", given[0], given[1]), kCommandLine, "leave out one of them");
  return arguments.has("--quiet") ? train::Printed::ends : arguments.has("--json") ? train::Printed::metrics : train::Printed::all;
}

int train_here(const Arguments& arguments, const train::Company& company) {
  const HiddenProgress hidden(!company.is_first() || arguments.has("--quiet"));
  const std::vector<std::string> words = request_with_skew(arguments);
  const std::optional<std::int64_t> from = step_to_go_on_from(arguments);
  const Request request = based(words);
  const session::Session session = session::open_to_run(request.words, config::Run::training);
  const config::Settings& settings = session.loaded.settings;
  if (company.processes != nullptr) company.processes->set_timeout(settings.real("collective_timeout"));
  sharding::check_tolerance(session.layout, settings);
  std::optional<session::Evaluated> evaluated;
  std::optional<train::Subject> subject;
  if (settings.integer("eval_interval") > 0) {
    evaluated = session::evaluated(session);
    subject.emplace(train::Subject{evaluated->graph, settings, evaluated->batch, {evaluated->layout, session.target}});
  }
  backend::Workers workers(threads_of(arguments));
  return train::train({session.loaded.settings,
                       session.shape,
                       session.graph,
                       session.batch,
                       {session.layout, session.target},
                       session.mesh.devices(),
                       request.about + session::headline(session),
                       request.is_first ? kNext : "",
                       arguments.has("--audit"),
                       printed_of(arguments),
                       company,
                       from,
                       subject},
                      workers);
}

constexpr double kJoinTimeout = 120;  // seconds, until the settings are read

// Trains as one of several processes. Only the first process prints, and an error of any process is reported once.
int train_with_others(const Arguments& arguments, transport::Processes& processes) {
  Failure failure;
  try {
    if (!processes.is_first()) {
      silence_output();
      hear_notices(false);
    }
    const int code = train_here(arguments, {&processes, arguments.has("--check-collectives")});
    flush_output();
    processes.all_say("", "at the end");
    processes.leave();
    return code;
  } catch (const transport::EndedByOther& ended) {
    failure = {ended.code, ended.what()};
  } catch (...) {
    failure = failure_of(std::current_exception());
  }
  if (processes.is_first() && !failure.message.empty()) log_error(failure.message);
  processes.end_all(failure.code, failure.message);
  return failure.code;
}

// Silences notices while the launcher reads the settings, because the run that it starts prints them itself.
class Unheard {
 public:
  Unheard() { hear_notices(false); }
  ~Unheard() { hear_notices(true); }
  Unheard(const Unheard&) = delete;
  Unheard& operator=(const Unheard&) = delete;
};

// The folder that all starts of a run share. It is created here if the run has no name.
struct RunFolder {
  std::string path;
  bool is_made = false;
};

RunFolder shared_folder(const Arguments& arguments) {
  const Unheard unheard;
  const config::Settings settings = config::load(based(request_with_skew(arguments)).words).settings;
  if (!settings.boolean("enable_checkpointing")) {
    refuse("--restarts, with enable_checkpointing=false: no checkpoint would be there to start again from", kCommandLine,
           "enable_checkpointing=true, or leave out --restarts");
  }
  if (settings.text("run_name").empty()) return {train::make_run_folder(settings), true};
  return {train::named_run_folder(settings), false};
}

// The same command without the options for processes and restarts, and without the options that are for the first start only.
Launch launch_of(const Arguments& arguments, std::int64_t processes, std::int64_t restarts) {
  Launch launch{static_cast<int>(processes), static_cast<int>(restarts), !arguments.has(kThreads.name), {"train"}};
  launch.words.insert(launch.words.end(), arguments.request().begin(), arguments.request().end());
  launch.from = step_to_go_on_from(arguments);
  for (const Option& option : kTrainOptions) {
    if (option.name == "--processes" || option.name == "--restarts" || option.name == "--from" || !arguments.has(option.name)) continue;
    launch.words.emplace_back(option.name);
    if (!option.value.empty()) launch.words.push_back(*arguments.value(option.name));
  }
  return launch;
}

int launch_train(const Arguments& arguments, std::int64_t processes, std::int64_t restarts) {
  Launch launch = launch_of(arguments, processes, restarts);
  if (restarts == 0) return cli::launch(launch);
  const RunFolder folder = shared_folder(arguments);
  launch.checkpoints = store::checkpoints_of_run(folder.path);
  if (!folder.is_made) return cli::launch(launch);
  launch.words.push_back("run_name=" + std::filesystem::path(folder.path).filename().string());
  const int code = cli::launch(launch);
  std::error_code error;
  std::filesystem::remove(folder.path, error);  // succeeds only if the run wrote nothing there
  return code;
}

int run_train(const Arguments& arguments) {
  const auto processes = count_of(arguments, "--processes", 4096, "--processes 2");
  const auto restarts = count_of(arguments, "--restarts", 1'000'000, "--restarts 3");
  const bool is_launched = transport::launched().count > 1;
  if (is_launched && processes) refuse("--processes, in a process that mpirun or srun has started", kCommandLine, "leave it out");
  if (!is_launched && (processes.value_or(1) > 1 || restarts)) {
    request_alone(arguments);
    return launch_train(arguments, processes.value_or(1), restarts.value_or(0));
  }
  const std::unique_ptr<transport::Processes> others = transport::join_launched(kJoinTimeout);
  return others == nullptr ? train_here(arguments, {}) : train_with_others(arguments, *others);
}

}  // namespace

const Command kTrain{
    "train",
    "[FILE.yml] [key=value ...] [--processes N]",
    "trains, on the devices of a mesh that this machine plays",
    "Trains a model on this machine. Each step prints the reference's `completed step:` line (on a terminal, what "
    "of it fits) and is written as JSON to BASE_OUTPUT_DIRECTORY/RUN_NAME/metrics.jsonl, behind what earlier runs "
    "of that name wrote; a line {\"run\": ...} with what was set begins each run.\n\n"
    "Ctrl-C, SIGTERM, SIGHUP or SIGUSR1 ends the run after the step, with its checkpoint, its summary and exit "
    "code 130, 143, 129 or 138; a second one ends it at once.\n\n"
    "With enable_checkpointing, the last step and those that checkpoint_period divides are saved to "
    "RUN_NAME/checkpoints/STEP while the next steps run. The same command goes on from the newest checkpoint that "
    "is whole, on any mesh, with any rules and kind of stacks. load_parameters_path and load_full_state_path "
    "begin with those of another run.\n\n"
    "eval_interval asks for the loss on data that is held out: those of eval_dataset_path, or a share by "
    "eval_fraction.\n\n"
    "Where neither FILE.yml nor a model is named, it goes on from configs/first.yml, and the first line says so: "
    "a small mixture of experts on a text that Debian ships, over eight devices. A model is named by model_name, "
    "decoder_block, head_dim, global_parameter_scale and base_... sizes; other keys change the one of "
    "configs/first.yml.\n\n"
    "At the end the run is held against its plan: how often devices exchanged what, how many bytes moved, how "
    "much memory was held. A difference is an error; --audit prints it all.",
    kTrainOptions,
    kTrainExamples,
    run_train};

}  // namespace moesh::cli
