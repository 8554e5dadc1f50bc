// Measures a whole process from the command line to a planned and forecast training step: wall time and peak memory.
#include "process.h"

int main(int argc, char** argv) {
  const std::string binary = argc > 1 ? argv[1] : MOESH_BINARY;
  constexpr int kRuns = 21;
  const auto measure = [&](const std::string& title, std::vector<std::string> words) {
    words.insert(words.begin(), {binary, "compile", "--json"});
    moesh::bench::measure(title, words, kRuns);
  };
  measure("deepseek3-671b on v5p-512, fsdp32 x expert8", {"model_name=deepseek3-671b", "compile_topology=v5p-512",
                                                          "ici_fsdp_parallelism=32", "ici_expert_parallelism=8"});
  measure("deepseek3-671b on 32 slices of v6e-256",
          {"model_name=deepseek3-671b", "compile_topology=v6e-256", "compile_topology_num_slices=32",
           "dcn_data_parallelism=32", "ici_fsdp_parallelism=32", "ici_expert_parallelism=8"});
  measure("mixtral-8x22b on 64 devices", {"model_name=mixtral-8x22b", "compile_topology=v5p-128",
                                          "ici_fsdp_parallelism=8", "ici_expert_parallelism=8"});
  const std::vector<std::string> five{"compile_topology=v5p-512", "ici_data_parallelism=2",
                                      "ici_fsdp_parallelism=8",   "ici_expert_parallelism=4",
                                      "ici_tensor_parallelism=2", "ici_context_parallelism=2"};
  const auto with_five = [&](std::vector<std::string> words) {
    words.insert(words.end(), five.begin(), five.end());
    return words;
  };
  measure("mixtral-8x22b, five axes larger than one", with_five({"model_name=mixtral-8x22b"}));
  measure("the same, by capacity",
          with_five({"model_name=mixtral-8x22b", "sparse_matmul=false", "capacity_factor=1.25"}));
  measure("deepseek3-671b, five axes larger than one", with_five({"model_name=deepseek3-671b"}));
  measure("the same, by muon", with_five({"model_name=deepseek3-671b", "opt_type=muon"}));
}
