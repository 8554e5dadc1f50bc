// The fixes that lint offers for another program's request hold when they are pasted behind it, where it is translated anew.
#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "tests/cli/outcome.h"

namespace moesh::cli {
namespace {

constexpr const char* kMegatron =
    "--num-layers 32 --hidden-size 4096 --ffn-hidden-size 14336 --num-attention-heads 32 --num-query-groups 8 --group-query-attention "
    "--swiglu --normalization RMSNorm --position-embedding-type rope --untie-embeddings-and-output-weights --disable-bias-linear "
    "--seq-length 4096 --max-position-embeddings 32768 --micro-batch-size 1 --global-batch-size 64 --bf16 --use-distributed-optimizer ";

using Words = std::vector<std::string>;

std::vector<Words> requests() {
  const std::string megatron = kMegatron, experts = megatron + "--num-experts 8 --moe-router-topk 2 --expert-model-parallel-size 8 ";
  const auto of = [](const std::string& program, const std::string& text, const std::string& machine) {
    return Words{"lint", "--json", "--from", program, text, "compile_topology=" + machine};
  };
  return {of("megatron", megatron, "a100-4"),
          of("megatron", megatron + "--tensor-model-parallel-size 2 --sequence-parallel", "v5e-8"),
          of("megatron", experts, "h100-8"),
          of("megatron", experts + "--recompute-granularity full --recompute-method uniform --recompute-num-layers 1", "h100-8"),
          of("torchtitan", "CONFIG=llama3_70b ./run_train.sh", "h100-8"),
          of("torchtitan", "CONFIG=deepseek_v3_16b ./run_train.sh --parallelism.expert_parallel_degree 4", "a100-4"),
          of("megatron", megatron + "--tensor-model-parallel-size 2 --sequence-parallel --pipeline-model-parallel-size 4", "h100-32"),
          of("torchtitan", "CONFIG=llama3_8b ./run_train.sh --parallelism.tensor_parallel_degree 2", "v5e-8"),
          of("torchtitan",
             "--model.name deepseek_v3 --model.flavor 16B --parallelism.pipeline_parallel_degree 2 --parallelism.expert_parallel_degree 8",
             "h100-16")};
}

TEST(ForeignFixesSlow, HoldWhenPasted) {
  int pasted = 0;
  for (const Words& request : requests()) {
    SCOPED_TRACE(join(request, " "));
    const auto advice = nlohmann::json::parse(outcome_of(request).out);
    for (const auto& finding : advice["findings"]) {
      for (const auto& fix : finding["fixes"]) {
        const Words keys = fix["keys"].get<Words>();
        SCOPED_TRACE(join(keys, " "));
        const Outcome after = outcome_of(config::joined(request, keys));
        ASSERT_NE(after.code, 2) << after.err;
        const auto made = nlohmann::json::parse(after.out);
        for (const auto& other : made["findings"]) {
          EXPECT_FALSE(other["check"] == finding["check"] && other["about"] == finding["about"]);
        }
        if (fix.contains("peak_bytes_per_device")) {
          EXPECT_EQ(made["memory"]["peak_bytes_per_device"], fix["peak_bytes_per_device"]);
        }
        ++pasted;
      }
    }
  }
  EXPECT_GT(pasted, 10);
}

}  // namespace
}  // namespace moesh::cli
