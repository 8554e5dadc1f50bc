// Compares the planned memory of a run with its actual memory, on layouts of the first configuration and others. Each layout trains
// for a few steps in a process of its own, whose peak memory the kernel reports.
#include <cstdint>
#include <cstdio>
#include <set>
#include <string>
#include <vector>

#include <fmt/core.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "base/table.h"
#include "base/text.h"
#include "errors.h"
#include "session/session.h"
#include "train/batches.h"
#include "train/memory.h"
#include "train/trainer.h"

namespace moesh {
namespace {

constexpr std::int64_t kSteps = 3;
constexpr double kMebibyte = 1 << 20;

struct Layout {
  const char* name;
  const char* request;
};

const std::string kFirst = "configs/first.yml";

// Dense layouts take the memory that is planned for them; with ragged rows the plan is an upper bound.
constexpr Layout kDense[] = {
    {"llama, one device", "decoder_block=llama2 num_experts=1 num_experts_per_tok=1 compile_topology=cpu-1 ici_fsdp_parallelism=1 ici_expert_parallelism=1 per_device_batch_size=16"},
    {"llama, fsdp 8", "decoder_block=llama2 num_experts=1 num_experts_per_tok=1 ici_fsdp_parallelism=8 ici_expert_parallelism=1 base_mlp_dim=1280 per_device_batch_size=4"},
    {"llama, fsdp 2, tensor 4", "decoder_block=llama2 num_experts=1 num_experts_per_tok=1 ici_fsdp_parallelism=2 ici_tensor_parallelism=4 ici_expert_parallelism=1 base_mlp_dim=1280 per_device_batch_size=2"},
    {"llama, wide, bfloat16", "decoder_block=llama2 num_experts=1 num_experts_per_tok=1 ici_fsdp_parallelism=8 ici_expert_parallelism=1 base_emb_dim=512 head_dim=128 base_mlp_dim=2048 dtype=bfloat16"},
    {"llama, 2 microbatches", "decoder_block=llama2 num_experts=1 num_experts_per_tok=1 ici_fsdp_parallelism=8 ici_expert_parallelism=1 base_emb_dim=512 head_dim=128 base_mlp_dim=2048 gradient_accumulation_steps=2"},
    {"capacity, fsdp 2, expert 4", "sparse_matmul=false capacity_factor=1.25 per_device_batch_size=4"},
    {"capacity, one device", "sparse_matmul=false capacity_factor=1 compile_topology=cpu-1 ici_fsdp_parallelism=1 ici_expert_parallelism=1 per_device_batch_size=32"},
    {"every expert, expert 8", "sparse_matmul=false ici_fsdp_parallelism=1 ici_expert_parallelism=8"},
    {"large vocabulary, tensor 8", "decoder_block=llama2 num_experts=1 num_experts_per_tok=1 ici_fsdp_parallelism=1 ici_expert_parallelism=1 ici_tensor_parallelism=8 base_num_query_heads=8 base_num_kv_heads=8 vocab_size=16000 remat_policy=minimal"},
    {"long rows, context 4", "decoder_block=llama2 num_experts=1 num_experts_per_tok=1 ici_fsdp_parallelism=2 ici_expert_parallelism=1 ici_context_parallelism=4 max_target_length=1024 per_device_batch_size=0.5"},
};

constexpr Layout kRagged[] = {
    {"ring, fsdp 2, expert 4", "per_device_batch_size=4 use_ring_of_experts=true"},
    {"all-to-all, fsdp 2, expert 4", "per_device_batch_size=4"},
    {"all-to-all, skewed", "per_device_batch_size=4 router_skew=2"},
};

session::Session session_of(const Layout& layout) {
  std::vector<std::string> request{kFirst, "dataset_type=synthetic"};
  for (const std::string& word : split(layout.request, ' ')) request.push_back(word);
  return session::open(request);
}

// What the child process that runs a layout reports to its parent.
struct Told {
  train::MemoryPlan plan;
  std::int64_t at_counts = 0;  // bytes of the pages that the values covered, with their actual numbers of rows
};

// The memory pages that all computed values cover, with their actual numbers of rows.
class Pages {
 public:
  void see(const run::Placed& value) {
    for (const run::Array& shard : value.shards) {
      const auto begin = reinterpret_cast<std::uintptr_t>(shard.raw());
      const std::uintptr_t end = begin + static_cast<std::uintptr_t>(shard.bytes());
      for (std::uintptr_t page = begin / kPage; begin < end && page <= (end - 1) / kPage; ++page) pages_.insert(page);
    }
  }
  std::int64_t bytes() const { return static_cast<std::int64_t>(pages_.size() * kPage); }

 private:
  static constexpr std::uintptr_t kPage = 4096;
  std::set<std::uintptr_t> pages_;
};

Told run_layout(const Layout& layout) {
  const session::Session session = session_of(layout);
  const config::Settings& settings = session.loaded.settings;
  backend::Workers workers(0);
  train::Batches batches(settings, session.batch, session.shape.vocab_size, workers.threads());
  train::StepProgram program = train::step_program(session.graph, settings, {session.layout, session.target});
  const train::MemoryPlan plan = memory_plan(program, footprint_of(program), workers.threads());
  train::Trainer trainer(std::move(program), settings, workers);
  initialize(trainer, session.graph, settings.integer("init_weights_seed"), workers);
  Pages pages;
  for (std::int64_t step = 0; step < kSteps; ++step) {
    const train::Batch batch = batches.at(step, trainer.pool());
    const auto see = [&](const plan::Instruction&, const std::vector<run::Placed>& made) {
      for (const run::Placed& value : made) pages.see(value);
    };
    trainer.run_step(batch, {.watch = see});
  }
  return {plan, pages.bytes()};
}

struct Trial {
  Told told;
  double measured = 0;  // peak memory in bytes
};

Trial measure(const Layout& layout) {
  int ends[2];
  if (pipe(ends) != 0) fail("no pipe to a process of its own", layout.name);
  const pid_t child = fork();
  if (child == 0) {
    int code = 0;
    try {
      const Told told = run_layout(layout);
      code = write(ends[1], &told, sizeof told) == sizeof told ? 0 : 1;
    } catch (const std::exception& error) {
      fmt::print(stderr, "{}: {}\n", layout.name, error.what());
      code = 1;
    }
    _exit(code);
  }
  close(ends[1]);
  Trial trial;
  const bool told = read(ends[0], &trial.told, sizeof trial.told) == sizeof trial.told;
  close(ends[0]);
  rusage usage{};
  int status = 0;
  wait4(child, &status, 0, &usage);
  if (!told || status != 0) fail("the layout could not be run", layout.name);
  trial.measured = static_cast<double>(usage.ru_maxrss) * 1024;
  return trial;
}

std::string mebibytes(double bytes) { return fmt::format("{:.1f}", bytes / kMebibyte); }

template <typename Layouts>
void print(const char* title, const Layouts& layouts) {
  Table table({{title}, {"already", true}, {"values", true}, {"workspace", true},
               {"planned", true}, {"measured", true}, {"planned / measured", true}, {"at the counts that occurred", true}});
  for (const Layout& layout : layouts) {
    const Trial trial = measure(layout);
    const train::MemoryPlan& plan = trial.told.plan;
    const auto of = [](std::int64_t bytes) { return mebibytes(static_cast<double>(bytes)); };
    table.add({layout.name, of(plan.already), of(plan.values), of(plan.workspace), of(plan.total()), mebibytes(trial.measured),
               fmt::format("{:.3f}", static_cast<double>(plan.total()) / trial.measured),
               of(plan.already + trial.told.at_counts + plan.workspace)});
  }
  fmt::print("{}\n", table.text(0));
}

int measure_all() {
  fmt::print("MiB of a process that trains {} steps, as planned and as the kernel counted its peak.\n\n", kSteps);
  print("dense rows", kDense);
  print("ragged rows: a bound", kRagged);
  return 0;
}

}  // namespace
}  // namespace moesh

int main() { return moesh::bench::with_errors_told(moesh::measure_all); }
