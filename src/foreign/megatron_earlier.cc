// The flags of earlier versions of Megatron-LM that have another name today.
#include <algorithm>
#include <iterator>

#include "foreign/megatron.h"

namespace moesh::foreign {
namespace {

struct Renamed {
  std::string_view earlier;
  std::string_view now;
  std::string_view value = "";    // replaces that of the flag, if there is one
  std::string_view besides = "";  // a further flag that it implies
  std::string_view besides_value = "";
};

constexpr Renamed kRenamed[] = {
    {"model-parallel-size", "tensor-model-parallel-size"},
    {"intra-layer-model-parallel-size", "tensor-model-parallel-size"},
    {"inter-layer-model-parallel-size", "pipeline-model-parallel-size"},
    {"virtual-pipeline-model-parallel-size", "num-virtual-stages-per-pipeline-rank"},
    {"batch-size", "micro-batch-size"},
    {"layernorm-epsilon", "norm-epsilon"},
    {"intermediate-size", "ffn-hidden-size"},
    {"moe-frequency", "moe-layer-freq"},
    {"moe-loss-coeff", "moe-aux-loss-coeff"},
    {"use-custom-fsdp", "use-megatron-fsdp"},
    {"fp8-e4m3", "fp8-format", "e4m3"},
    {"fp8-hybrid", "fp8-format", "hybrid"},
    {"checkpoint-granularity", "recompute-granularity"},
    {"checkpoint-method", "recompute-method", "", "recompute-granularity", "full"},
    {"activations-checkpoint-method", "recompute-method", "", "recompute-granularity", "full"},
    {"checkpoint-num-layers", "recompute-num-layers"},
    {"activations-checkpoint-num-layers", "recompute-num-layers"},
    {"distribute-checkpointed-activations", "distribute-saved-activations"},
    {"distribute-recomputed-activations", "distribute-saved-activations"},
    {"multi-query-attention", "group-query-attention", "", "num-query-groups", "1"},
    {"model-spec", "spec"},
    {"hybrid-attention-ratio", "hybrid-layer-pattern"},
    {"hybrid-mlp-ratio", "hybrid-layer-pattern"},
};

}  // namespace

std::vector<Flag> spelled_as_now(std::vector<Flag> flags) {
  std::vector<Flag> all;
  for (Flag& flag : flags) {
    const auto earlier =
        std::find_if(std::begin(kRenamed), std::end(kRenamed), [&](const Renamed& one) { return one.earlier == flag.name; });
    if (earlier != std::end(kRenamed)) {
      if (!earlier->besides.empty()) all.push_back({std::string(earlier->besides), {std::string(earlier->besides_value)}, flag.where});
      if (!earlier->value.empty()) flag.values = {std::string(earlier->value)};
      flag.name = earlier->now;
    }
    all.push_back(std::move(flag));
  }
  return all;
}

std::vector<std::string_view> earlier_megatron_flags() {
  std::vector<std::string_view> names;
  for (const Renamed& one : kRenamed) names.push_back(one.earlier);
  return names;
}

}  // namespace moesh::foreign
