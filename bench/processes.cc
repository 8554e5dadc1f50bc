// Measures the cost of spreading a run over processes: one process of two threads and two processes run the same steps in turns.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/progress.h"
#include "base/table.h"
#include "base/text.h"
#include "errors.h"
#include "median.h"
#include "temporary_folder.h"
#include "words.h"

namespace moesh::bench {
namespace {

constexpr const char* kHelp = R"(bench_processes [--rounds=N] [--steps=N]

For layouts of a small mixture of experts on eight devices: milliseconds a step in one process of two threads and in two processes, which
mpirun starts; their ratio; and the bytes that devices took from each other, as they were exchanged by two processes, beside the plan.

  --rounds=N  of both, in turns (default 3)
  --steps=N   of each (default 30)
)";

struct Options {
  std::int64_t rounds = 3, steps = 30;
};

struct Named {
  const char* name;
  const char* keys;
};

constexpr Named kLayouts[] = {
    {"fsdp8", "ici_fsdp_parallelism=8"},
    {"ep8 ring", "ici_expert_parallelism=8 use_ring_of_experts=true"},
    {"ep8 all-to-all", "ici_expert_parallelism=8"},
    {"fsdp2 x ep4, all-to-all", "ici_fsdp_parallelism=2 ici_expert_parallelism=4"},
    {"ep-tp", "ici_expert_parallelism=8 custom_mesh_and_rule=ep-tp use_ring_of_experts=true"},
    {"ep-as-cp", "ici_fsdp_parallelism=2 ici_expert_parallelism=4 custom_mesh_and_rule=ep-as-cp"},
    {"shard-exp-on-fsdp, muon", "ici_fsdp_parallelism=4 ici_expert_parallelism=2 custom_mesh_and_rule=shard-exp-on-fsdp opt_type=muon"},
    {"tensor x context", "ici_tensor_parallelism=2 ici_context_parallelism=2 ici_fsdp_parallelism=2"},
};

constexpr const char* kModel =
    "model_name=mixtral-8x7b override_model_config=true compile_topology=cpu-8 ici_fsdp_parallelism=1 dtype=float32 "
    "base_num_decoder_layers=2 base_emb_dim=256 base_num_query_heads=8 base_num_kv_heads=8 head_dim=32 base_mlp_dim=512 "
    "base_moe_mlp_dim=512 vocab_size=1024 per_device_batch_size=1 max_target_length=128 dataset_type=synthetic enable_checkpointing=false "
    "log_config=false";

// The result of one run of the binary.
struct Ended {
  double seconds = 0;  // median time of a step, without the first
  std::string moved;   // "1,024 bytes moved, planned 1,024"
};

Ended run(const std::string& folder, const Named& layout, const Options& options, const std::string& more) {
  const std::string metrics = folder + "/metrics.jsonl", out = folder + "/out";
  std::filesystem::remove(metrics);
  const std::string command = fmt::format("{} train {} {} steps={} metrics_file={} --audit {} >{} 2>&1", MOESH_BINARY, kModel, layout.keys,
                                          options.steps, metrics, more, out);
  if (std::system(command.c_str()) != 0) fail(fmt::format("{} failed, see {}", layout.name, out));
  Ended ended;
  std::vector<double> seconds;
  std::ifstream lines(metrics);
  for (std::string line; std::getline(lines, line);) {
    const auto step = nlohmann::json::parse(line);
    if (step.contains("step") && step["step"] > 0) seconds.push_back(step["seconds"]);
  }
  ended.seconds = median(seconds);
  std::ifstream told(out);
  constexpr std::string_view kAll = "all collectives: ";
  for (std::string line; std::getline(told, line);) {
    if (line.starts_with(kAll)) ended.moved = line.substr(kAll.size());
  }
  return ended;
}

int measure(const Options& options) {
  const TemporaryFolder folder;
  Table table({{"layout"}, {"1 process, ms", true}, {"2 processes, ms", true}, {"ratio", true}, {"between devices, all steps"}});
  Progress progress("layout", std::size(kLayouts));
  std::int64_t done = 0;
  for (const Named& layout : kLayouts) {
    progress.advance(done++, layout.name);
    std::vector<double> one, two, ratios;
    std::string moved;
    for (std::int64_t round = 0; round < options.rounds; ++round) {
      one.push_back(run(folder.path(), layout, options, "--threads 2").seconds);
      const Ended ended = run(folder.path(), layout, options, "--processes 2");
      two.push_back(ended.seconds);
      ratios.push_back(two.back() / one.back());
      moved = ended.moved;
    }
    table.add({layout.name, fmt::format("{:.1f}", 1e3 * median(one)), fmt::format("{:.1f}", 1e3 * median(two)),
               fmt::format("{:.2f}", median(ratios)), moved});
  }
  fmt::print("{}", table.text(0));
  return 0;
}

}  // namespace
}  // namespace moesh::bench

int main(int argc, char** argv) {
  using namespace moesh::bench;
  return with_errors_told([&] {
    Options options;
    for_words(argc, argv, kHelp, [&](const std::string& name, const std::string& value) {
      if (name == "--rounds") options.rounds = count_in(name, value, 100);
      else if (name == "--steps") options.steps = count_in(name, value, 100'000);
      else return false;
      return true;
    });
    return measure(options);
  });
}
