// Measures a whole process from the command line to the layout of a model: wall time and peak memory.
#include "process.h"

int main(int argc, char** argv) {
  const std::string binary = argc > 1 ? argv[1] : MOESH_BINARY;
  const std::vector<std::string> deepseek{"model_name=deepseek3-671b", "compile_topology=tpu7x-8192",
                                          "ici_data_parallelism=16",
                                          "ici_expert_parallelism=64"};
  const auto with = [&](std::vector<std::string> words) {
    words.insert(words.begin(), binary);
    words.insert(words.end(), deepseek.begin(), deepseek.end());
    return words;
  };
  constexpr int kRuns = 21;
  moesh::bench::measure("moesh --help", {binary, "--help"}, kRuns);
  moesh::bench::measure("shardings deepseek3-671b on tpu7x-8192", with({"shardings"}), kRuns);
  moesh::bench::measure("shardings --json, the same", with({"shardings", "--json"}), kRuns);
  moesh::bench::measure("shardings --activations, 61 layers unscanned", with({"shardings", "--activations", "scan_layers=false"}), kRuns);
  moesh::bench::measure("lint, the same scanned", with({"lint"}), kRuns);
}
