// Fuzzes files of mesh axes and rules, on a small model and mesh.
#include <array>

#include "fuzz/mutate.h"
#include "fuzz/targets.h"

namespace moesh::fuzz {
namespace {

const std::vector<config::AxisRule>& default_rules() {
  static const config::Loaded loaded = config::load({});
  return loaded.settings.rules("logical_axis_rules");
}

std::string some_axes(Random& random) {
  constexpr std::array kAxes = {"data", "stage", "fsdp", "fsdp_transpose", "context", "tensor", "tensor_sequence",
                                "expert", "autoregressive", "sequence", "model", "nothing"};
  std::vector<std::string> axes;
  for (std::size_t count = below(random, 4); count > 0; --count) axes.emplace_back(one_of(random, kAxes));
  return "[" + join(axes, ", ") + "]";
}

std::string some_request(Random& random) {
  constexpr std::array kWords = {"ici_fsdp_parallelism=2", "ici_fsdp_parallelism=1", "ici_expert_parallelism=4",
                                 "ici_expert_parallelism=2", "ici_tensor_parallelism=2", "ici_context_parallelism=2",
                                 "ici_pipeline_parallelism=2", "ici_data_parallelism=2", "ici_data_parallelism=-1",
                                 "decoder_block=mixtral", "decoder_block=deepseek",
                                 "decoder_block=gpt_oss mlp_activations_limit=7",
                                 "decoder_block=qwen3_moe", "num_experts=8 num_experts_per_tok=2", "attention_type=mla",
                                 "sparse_matmul=false", "capacity_factor=1.25", "moe_dispatch_no_expert_sharding=true",
                                 "scan_layers=false", "shard_optimizer_over_data=true", "first_num_dense_layers=1",
                                 "use_ring_of_experts=true", "shared_experts=1", "logits_via_embedding=true"};
  std::string line = "#";
  for (std::size_t count = 1 + below(random, 6); count > 0; --count) line += std::string(" ") + one_of(random, kWords);
  return line;
}

std::string some_line(Random& random) {
  switch (below(random, 12)) {
    case 0: return "mesh_axes: " + some_axes(random);
    case 1: return "data_sharding: " + some_axes(random);
    case 2: return "logical_axis_rules:";
    case 3: return some_request(random);
    default: return "  - [" + one_of(random, default_rules()).label + ", " + some_axes(random) + "]";
  }
}

}  // namespace
}  // namespace moesh::fuzz

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t max_size,
                                               unsigned seed) {
  return moesh::fuzz::mutate_text(data, size, max_size, seed, moesh::fuzz::some_line);
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  moesh::fuzz::fuzz_rules(moesh::fuzz::as_text(data, size));
  return 0;
}
