// Checks whether steps on a calibrated machine take as long as predicted: ten layouts that the calibration did not time, and the order
// of five ways to lay out experts.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include <fmt/core.h>

#include "base/text.h"
#include "cli/command.h"
#include "cli/typical_step.h"
#include "errors.h"
#include "measure/profile.h"
#include "temporary_folder.h"
#include "words.h"

namespace moesh::bench {
namespace {

constexpr const char* kHelp =
    "bench_calibration [--file=FILE.yml] [--steps=N]\n"
    "Measures this machine as `moesh doctor --calibrate` does, or takes a file that it wrote, then trains steps of layouts and prints what\n"
    "they take beside what was predicted. Nothing else should run meanwhile.\n";

struct Layout {
  const char* title;
  const char* words;
  int devices;
};

constexpr Layout kLayouts[] = {
    {"llama, one device, float32",
     "model_name=llama2-7b base_emb_dim=512 base_mlp_dim=1536 base_num_query_heads=8 base_num_kv_heads=8 head_dim=64 "
     "base_num_decoder_layers=3 vocab_size=10000 max_target_length=320 per_device_batch_size=3 dtype=float32", 1},
    {"llama, fsdp=4, bfloat16",
     "model_name=llama2-7b base_emb_dim=640 base_mlp_dim=1792 base_num_query_heads=10 base_num_kv_heads=10 head_dim=64 "
     "base_num_decoder_layers=3 vocab_size=6000 max_target_length=192 per_device_batch_size=2 dtype=bfloat16 ici_fsdp_parallelism=4", 4},
    {"llama, fsdp=2 x tensor=2, float32, remat minimal",
     "model_name=llama2-7b base_emb_dim=512 base_mlp_dim=1408 base_num_query_heads=8 base_num_kv_heads=4 head_dim=64 "
     "base_num_decoder_layers=4 vocab_size=4096 max_target_length=256 per_device_batch_size=2 dtype=float32 remat_policy=minimal "
     "ici_fsdp_parallelism=2 ici_tensor_parallelism=2", 4},
    {"mixtral, one device, bfloat16",
     "model_name=mixtral-8x7b base_emb_dim=384 base_mlp_dim=768 base_moe_mlp_dim=768 base_num_query_heads=6 base_num_kv_heads=3 "
     "head_dim=64 base_num_decoder_layers=3 vocab_size=8192 max_target_length=384 per_device_batch_size=4 dtype=bfloat16", 1},
    {"mixtral, expert=4, all-to-all, float32",
     "model_name=mixtral-8x7b base_emb_dim=384 base_mlp_dim=896 base_moe_mlp_dim=896 base_num_query_heads=6 base_num_kv_heads=6 "
     "head_dim=64 base_num_decoder_layers=2 vocab_size=4096 max_target_length=256 per_device_batch_size=2 dtype=float32 "
     "ici_expert_parallelism=4", 4},
    {"mixtral, expert=8, ring, bfloat16",
     "model_name=mixtral-8x7b num_experts=16 base_emb_dim=320 base_mlp_dim=640 base_moe_mlp_dim=640 base_num_query_heads=5 "
     "base_num_kv_heads=5 head_dim=64 base_num_decoder_layers=3 vocab_size=4096 max_target_length=192 per_device_batch_size=1 "
     "dtype=bfloat16 use_ring_of_experts=true ici_expert_parallelism=8", 8},
    {"mixtral, fsdp=2 x expert=4, capacity, bfloat16",
     "model_name=mixtral-8x7b base_emb_dim=384 base_mlp_dim=640 base_moe_mlp_dim=640 base_num_query_heads=6 base_num_kv_heads=6 "
     "head_dim=64 base_num_decoder_layers=2 vocab_size=6000 max_target_length=256 per_device_batch_size=1 dtype=bfloat16 "
     "sparse_matmul=false capacity_factor=1.25 moe_dispatch_no_expert_sharding=true ici_fsdp_parallelism=2 ici_expert_parallelism=4", 8},
    {"deepseek3, fsdp=2 x expert=2, bfloat16",
     "model_name=deepseek3-tiny base_num_decoder_layers=3 first_num_dense_layers=1 vocab_size=8000 max_target_length=256 "
     "per_device_batch_size=2 dtype=bfloat16 ici_fsdp_parallelism=2 ici_expert_parallelism=2", 4},
    {"llama, fsdp=2 x context=2, float32",
     "model_name=llama2-7b base_emb_dim=448 base_mlp_dim=1280 base_num_query_heads=7 base_num_kv_heads=7 head_dim=64 "
     "base_num_decoder_layers=3 vocab_size=4096 max_target_length=512 per_device_batch_size=1 dtype=float32 ici_fsdp_parallelism=2 "
     "ici_context_parallelism=2", 4},
    {"gpt3, data=2, bfloat16, two microbatches",
     "model_name=gpt3-6b base_emb_dim=512 base_mlp_dim=2048 base_num_query_heads=8 base_num_kv_heads=8 head_dim=64 "
     "base_num_decoder_layers=2 vocab_size=5000 max_target_length=256 per_device_batch_size=2 gradient_accumulation_steps=2 "
     "dtype=bfloat16 ici_fsdp_parallelism=1 ici_data_parallelism=2", 2},
};

constexpr const char* kExperts =
    "model_name=mixtral-8x7b num_experts=16 base_emb_dim=384 base_mlp_dim=768 base_moe_mlp_dim=768 base_num_query_heads=6 "
    "base_num_kv_heads=6 head_dim=64 base_num_decoder_layers=2 vocab_size=4096 max_target_length=256 per_device_batch_size=1 "
    "dtype=bfloat16 ";
constexpr Layout kModes[] = {
    {"ring EP", "use_ring_of_experts=true ici_expert_parallelism=8", 8},
    {"all-to-all EP", "ici_expert_parallelism=8", 8},
    {"FSDP sparse", "ici_fsdp_parallelism=8", 8},
    {"FSDP dense", "sparse_matmul=false ici_fsdp_parallelism=8", 8},
    {"EP dense", "sparse_matmul=false ici_expert_parallelism=8", 8},
};

struct Compared {
  std::string title;
  double measured = 0, predicted = 0;
  double ratio() const { return predicted / measured; }
};

constexpr double kWithin = 0.25;
constexpr double kAlike = 1.05;  // ratio of two times up to which their order does not count

Compared compare(const Layout& layout, const std::string& words, const std::string& file, std::int64_t steps) {
  std::vector<std::string> request;
  const std::string all = words + " override_model_config=true dataset_type=synthetic";
  for (const std::string& word : split(all, ' ')) request.push_back(word);
  request.push_back(fmt::format("compile_topology={}:{}", file, layout.devices));
  const session::Session session = session::open_to_run(request, config::Run::training);
  backend::Workers workers(0);
  const cli::TypicalStep step(session, steps, workers);
  const std::vector<forecast::Timing> timings = forecast::timings_of(step.plan(), cost::Network(session.mesh, session.target));
  return {layout.title, step.seconds(), measure::planned_seconds(measure::times_by_kind(step.plan(), timings, step.spans()))};
}

void print(const Compared& of) {
  fmt::print("{:<52} {:9.1f} ms {:9.1f} ms {:6.2f}\n", of.title, of.measured * 1e3, of.predicted * 1e3, of.ratio());
}

bool are_in_order(const std::vector<Compared>& modes) {
  for (const Compared& a : modes) {
    for (const Compared& b : modes) {
      if (a.measured > kAlike * b.measured && a.predicted <= b.predicted) return false;
    }
  }
  return true;
}

int measure(const std::string& given, std::int64_t steps) {
  const TemporaryFolder folder;
  const std::string file = given.empty() ? folder.path() + "/here.yml" : given;
  if (given.empty() && cli::run({"doctor", "--calibrate", "--to", file}) != 0) return 1;
  fmt::print("\n{:<52} {:>12} {:>12} {:>6}\n", "a step of", "measured", "predicted", "ratio");
  int within = 0;
  for (const Layout& layout : kLayouts) {
    const Compared compared = compare(layout, layout.words, file, steps);
    print(compared);
    within += std::abs(compared.ratio() - 1) <= kWithin;
  }
  fmt::print("{} of {} within {:.0f}%\n\n", within, std::size(kLayouts), 100 * kWithin);
  std::vector<Compared> modes;
  for (const Layout& mode : kModes) {
    modes.push_back(compare(mode, std::string(kExperts) + mode.words, file, steps));
    print(modes.back());
  }
  fmt::print("the order of the five is {}\n", are_in_order(modes) ? "right" : "wrong");
  return 0;
}

}  // namespace
}  // namespace moesh::bench

int main(int argc, char** argv) {
  using namespace moesh::bench;
  std::string file;
  std::int64_t steps = 5;
  return with_errors_told([&] {
    for_words(argc, argv, kHelp, [&](const std::string& name, const std::string& value) {
      if (name == "--file") file = value;
      if (name == "--steps") steps = count_in(name, value);
      return name == "--file" || name == "--steps";
    });
    return measure(file, steps);
  });
}
