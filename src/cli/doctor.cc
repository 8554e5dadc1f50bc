#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <unistd.h>
#include <vector>

#include <fmt/core.h>

#include "backend/cpu/isa.h"
#include "backend/workers.h"
#include "base/error.h"
#include "base/json.h"
#include "base/machine_cores.h"
#include "base/machine_memory.h"
#include "base/module.h"
#include "base/progress.h"
#include "base/system.h"
#include "base/table.h"
#include "base/terminal.h"
#include "base/text.h"
#include "base/whole_file.h"
#include "cli/command.h"
#include "cli/typical_step.h"
#include "measure/calibration.h"

namespace moesh::cli {
namespace {

constexpr Option kDoctorOptions[] = {
    {"--calibrate", "", "measures how long this machine takes, some minutes, and writes its hardware file"},
    {"--to", "FILE", "of `--calibrate`: where to; this-machine.yml where it is left out"},
    {"--json", "", "the same as JSON"},
    kThreads,
};

constexpr std::string_view kDoctorExamples[] = {
    "doctor",
    "doctor --json",
};

struct Check {
  std::string what;
  std::string found;
  std::string advice;  // empty if all is well
};

std::string first_line_of(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

std::string processor() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("model name")) return std::string(trim(line.substr(line.find(':') + 1)));
  }
  return "an unknown processor";
}

Check check_instructions() {
  std::vector<std::string> names;
  for (const backend::cpu::Isa isa : backend::cpu::kIsas) {
    if (backend::cpu::machine_has(isa)) names.emplace_back(name_of(isa));
  }
  const bool is_fast = backend::cpu::machine_has(backend::cpu::Isa::avx2);
  return {"vector instructions", join(names, ", ") + fmt::format("; {} is used", name_of(backend::cpu::chosen_isa())),
          is_fast ? "" : "kernels are slow without AVX2"};
}

Check check_cores() {
  const int usable = usable_cores();
  const auto all = static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN));
  return {"cores", fmt::format("{} of {} may be kept busy", usable, all), ""};
}

Check check_load() {
  const double load = std::strtod(first_line_of("/proc/loadavg").c_str(), nullptr);
  const bool is_busy = load > 0.5 * usable_cores();
  return {"load", fmt::format("{:.1f} in the last minute", load),
          is_busy ? "others keep it busy: times that are measured now are too long" : ""};
}

Check check_memory() {
  constexpr std::int64_t kLittle = std::int64_t{2} << 30;
  const FreeMemory free = free_memory();
  if (free.where.empty()) return {"memory", "unknown", "/proc/meminfo cannot be read"};
  return {"memory", fmt::format("{} may be taken, by {}", human_bytes(free.bytes), free.where),
          free.bytes < kLittle ? "runs of any size need more" : ""};
}

Check check_huge_pages() {
  const std::string setting = first_line_of("/sys/kernel/mm/transparent_hugepage/enabled");
  const bool is_off = setting.empty() || setting.find("[never]") != std::string::npos;
  return {"huge pages", is_off ? "off" : "where they are asked for",
          is_off ? "large kernels lose some percent: echo madvise > /sys/kernel/mm/transparent_hugepage/enabled" : ""};
}

Check check_disk() {
  constexpr std::uintmax_t kLittle = std::uintmax_t{1} << 30;
  std::error_code error;
  const std::filesystem::path here = std::filesystem::current_path(error);
  const std::filesystem::space_info space = std::filesystem::space(here, error);
  const std::string room = error ? "unknown" : human_bytes(space.available) + " free";
  const std::string found = fmt::format("{} in {}", room, here.string());
  if (::access(here.c_str(), W_OK) != 0) return {"disk", found, "nothing can be written there: set base_output_directory"};
  return {"disk", found, !error && space.available < kLittle ? "checkpoints need more" : ""};
}

bool is_on_path(const std::string& program) {
  const char* path = std::getenv("PATH");
  for (const std::string& folder : split(path == nullptr ? "" : path, ':')) {
    if (::access((folder + "/" + program).c_str(), X_OK) == 0) return true;
  }
  return false;
}

Check check_processes() {
  const bool is_built = std::filesystem::exists(module_place(kMpiModule));
  if (is_built && is_on_path("mpirun")) return {"several processes", "Open MPI", ""};
  return {"several processes", is_built ? "no mpirun" : fmt::format("no {} beside the program", kMpiModule),
          "a run stays in one: install libopenmpi-dev and openmpi-bin, and build again"};
}

Check check_serving() {
  const bool is_built = std::filesystem::exists(module_place(kHttpModule));
  return {"serving", is_built ? "HTTP" : fmt::format("no {} beside the program", kHttpModule),
          is_built ? "" : "`moesh serve` cannot begin: build again"};
}

std::vector<Check> all_checks() {
  return {{"processor", processor(), ""}, check_instructions(), check_cores(),     check_load(),   check_memory(),
          check_huge_pages(),             check_disk(),         check_processes(), check_serving()};
}

std::string words_of(const std::vector<Check>& checks, int width) {
  Table table({{""}, {"", false, Room::wrap}});
  std::string advice;
  for (const Check& check : checks) {
    table.add({check.what, check.found});
    if (!check.advice.empty()) advice += wrapped(fmt::format("{}: {}\n", check.what, check.advice), width, 2);
  }
  return table.text(width) + (advice.empty() ? "\nNothing stands in the way.\n" : "\n" + advice);
}

std::string json_of(const std::vector<Check>& checks) {
  JsonWriter json;
  json.begin_array();
  for (const Check& check : checks) {
    json.line().begin_object().key("what").value(check.what).key("found").value(check.found);
    if (!check.advice.empty()) json.key("advice").value(check.advice);
    json.end_object();
  }
  return json.line().end_array().text();
}

// Training steps that together run all kinds of kernels and exchanges, in sizes from bound by overhead to bound by throughput.
struct StepToTime {
  const char* model;
  const char* sizes;
  const char* layout;
};
constexpr const char* kDense = "model_name=llama2-7b";
constexpr const char* kExperts = "model_name=mixtral-8x7b num_experts=8 num_experts_per_tok=2";
constexpr const char* kSmallExperts =
    "base_emb_dim=256 base_mlp_dim=512 base_moe_mlp_dim=512 base_num_query_heads=4 base_num_kv_heads=4 head_dim=64 "
    "base_num_decoder_layers=2 vocab_size=4096 max_target_length=256 per_device_batch_size=1";
constexpr StepToTime kSteps[] = {
    {kDense,
     "base_emb_dim=64 base_mlp_dim=128 base_num_query_heads=4 base_num_kv_heads=4 head_dim=16 base_num_decoder_layers=2 vocab_size=256 "
     "max_target_length=64 per_device_batch_size=1",
     "compile_topology=cpu-8 ici_fsdp_parallelism=8"},
    {kDense,
     "base_emb_dim=256 base_mlp_dim=768 base_num_query_heads=4 base_num_kv_heads=4 head_dim=64 base_num_decoder_layers=2 vocab_size=2048 "
     "max_target_length=128 per_device_batch_size=2",
     "compile_topology=cpu-1"},
    {kDense,
     "base_emb_dim=384 base_mlp_dim=1024 base_num_query_heads=8 base_num_kv_heads=4 head_dim=48 base_num_decoder_layers=2 vocab_size=4096 "
     "max_target_length=256 per_device_batch_size=2",
     "compile_topology=cpu-4 ici_fsdp_parallelism=2 ici_tensor_parallelism=2"},
    {kDense,
     "base_emb_dim=512 base_mlp_dim=1536 base_num_query_heads=8 base_num_kv_heads=8 head_dim=64 base_num_decoder_layers=2 vocab_size=6144 "
     "max_target_length=192 per_device_batch_size=2 gradient_accumulation_steps=2",
     "compile_topology=cpu-2 ici_fsdp_parallelism=1 ici_data_parallelism=2"},
    {kDense,
     "base_emb_dim=1024 base_mlp_dim=4096 base_num_query_heads=16 base_num_kv_heads=8 head_dim=64 base_num_decoder_layers=1 "
     "vocab_size=16000 max_target_length=512 per_device_batch_size=2 remat_policy=everything",
     "compile_topology=cpu-1"},
    {kExperts,
     "base_emb_dim=512 base_mlp_dim=1024 base_moe_mlp_dim=1024 base_num_query_heads=8 base_num_kv_heads=4 head_dim=64 "
     "base_num_decoder_layers=2 vocab_size=8192 max_target_length=512 per_device_batch_size=4",
     "compile_topology=cpu-1"},
    {kExperts, kSmallExperts, "compile_topology=cpu-8 ici_fsdp_parallelism=2 ici_expert_parallelism=4"},
    {kExperts, kSmallExperts, "compile_topology=cpu-8 ici_fsdp_parallelism=2 ici_expert_parallelism=4 use_ring_of_experts=true"},
    {kExperts, kSmallExperts,
     "compile_topology=cpu-8 ici_fsdp_parallelism=2 ici_expert_parallelism=4 sparse_matmul=false capacity_factor=1.25"},
    {kExperts, kSmallExperts, "compile_topology=cpu-8 ici_fsdp_parallelism=8 sparse_matmul=false"},
};
constexpr const char* kTypes[] = {"float32", "bfloat16"};
constexpr std::int64_t kTimedSteps = 3;

std::vector<std::string> request_of(const StepToTime& step, const char* type) {
  const std::string always = fmt::format("override_model_config=true dataset_type=synthetic dtype={}", type);
  return split(fmt::format("{} {} {} {}", step.model, step.sizes, step.layout, always), ' ');
}

mesh::MeasuredTimes measured_times(backend::Workers& workers) {
  std::vector<measure::Sample> samples;
  Progress progress("step timed", static_cast<std::int64_t>(std::size(kSteps) * std::size(kTypes)));
  std::int64_t done = 0;
  for (const StepToTime& step : kSteps) {
    for (const char* type : kTypes) {
      const TypicalStep timed(session::open_to_run(request_of(step, type), config::Run::training), kTimedSteps, workers, false);
      const std::vector<measure::Sample> more = measure::samples_of(timed.plan(), timed.spans());
      samples.insert(samples.end(), more.begin(), more.end());
      progress.advance(++done);
    }
  }
  return measure::points_of(samples);
}

int calibrate(const Arguments& arguments) {
  const std::string path = arguments.value("--to").value_or("this-machine.yml");
  if (!path.ends_with(".yml"))
    refuse(fmt::format("'{}' is no name for a hardware file", shorten(path, 80)), "--to", "a name that ends in .yml");
  backend::Workers workers(threads_of(arguments));
  const measure::MachineFacts facts{fmt::format("{}, {}", processor(), counted(workers.threads(), "thread")), local_time("%Y-%m-%d"),
                                    workers.threads(), free_memory().bytes};
  const measure::MachineRates rates = measure::measure_rates(workers);
  const mesh::MeasuredTimes times = measured_times(workers);
  replace_file(path, measure::hardware_file(facts, rates, times), "another folder with --to FILE");
  const auto kinds = static_cast<std::int64_t>(times.size());
  if (arguments.has("--json")) {
    JsonWriter json;
    json.begin_object().key("file").value(path).key("title").value(facts.title).key("kinds").value(kinds);
    fmt::print("{}\n", json.end_object().text());
    return 0;
  }
  const std::string said = fmt::format(
      "Measured {} of work of {} and wrote {}. Steps are predicted by it with compile_topology={}:DEVICES, for example in `moesh compile` "
      "and beside what they take in `moesh bench`.\n",
      counted(kinds, "kind"), facts.title, path, path);
  fmt::print("{}", wrapped(said, terminal_width(), 2));
  return 0;
}

int run_doctor(const Arguments& arguments) {
  if (!arguments.words().empty() || !arguments.request().empty())
    refuse("doctor takes no model and no keys", kCommandLine, "moesh doctor [--calibrate]");
  if (arguments.has("--calibrate")) return calibrate(arguments);
  if (arguments.has("--threads")) refuse("--threads without --calibrate", kCommandLine, "moesh doctor --calibrate --threads N");
  if (arguments.has("--to")) refuse("--to without --calibrate", kCommandLine, "moesh doctor --calibrate --to FILE");
  const std::vector<Check> checks = all_checks();
  if (arguments.has("--json")) {
    fmt::print("{}\n", json_of(checks));
  } else {
    fmt::print("{}", words_of(checks, terminal_width()));
  }
  return 0;
}

}  // namespace

const Command kDoctor{
    "doctor",
    "[--calibrate [--to FILE]] [--threads N] [--json]",
    "what this machine has, and how fast it is",
    "Tells what runs here will find: instructions, cores, memory, disk, what lies beside the program; and what had better be changed.\n"
    "`--calibrate` trains some small steps of several layouts and notes how long each kind of kernel and exchange took for how much\n"
    "work. The file that it writes is a hardware file: with compile_topology=this-machine.yml:8 steps of eight virtual devices on this\n"
    "machine are predicted. Best done when nothing else runs.",
    kDoctorOptions,
    kDoctorExamples,
    run_doctor};

}  // namespace moesh::cli
