// How much room experts have for tokens: their slots, and the rows that a device may receive.
#include <algorithm>

#include <gtest/gtest.h>

#include "tests/nn/nodes.h"
#include "tests/support.h"

namespace moesh::nn {
namespace {

using graph::Op;

std::int64_t slots_of(const std::string& request) {
  const session::Session session = moesh::test::session(
      "decoder_block=mixtral override_model_config=true sparse_matmul=false per_device_batch_size=1 compile_topology=cpu-1 " + request);
  return moesh::test::attributes_at<graph::SlotMaskOf>(session.graph, "dispatch").capacity;
}

// The fair share is rounded up before it is multiplied with the factor.
TEST(ExpertSlots, AreTheFairShareTimesTheFactor) {
  EXPECT_EQ(slots_of("num_experts=3 num_experts_per_tok=2 max_target_length=10 capacity_factor=1"), 7) << "20 choices";
  EXPECT_EQ(slots_of("num_experts=3 num_experts_per_tok=2 max_target_length=10 capacity_factor=1.25"), 8);
  EXPECT_EQ(slots_of("num_experts=64 num_experts_per_tok=2 max_target_length=10 capacity_factor=2.5"), 2);
  EXPECT_EQ(slots_of("num_experts=64 num_experts_per_tok=2 max_target_length=10 capacity_factor=0.5"), 1) << "at least one";
}

TEST(ExpertSlots, HaveKernelsGatheredInTheComputeTypeOnlyIfExpertsAreSharded) {
  const auto has_constraint = [](const std::string& mesh) {
    bool found = false;
    moesh::test::see_all(
        moesh::test::session(
            "decoder_block=mixtral num_experts=4 sparse_matmul=false capacity_factor=1 per_device_batch_size=1 compile_topology=cpu-2 " +
            mesh)
            .graph,
        [&](const graph::Graph&, const graph::Node& node) { found = found || node.path.ends_with("/wi_0_kernel"); });
    return found;
  };
  EXPECT_TRUE(has_constraint("ici_fsdp_parallelism=1 ici_expert_parallelism=2"));
  EXPECT_FALSE(has_constraint("ici_fsdp_parallelism=2"));
}

// A device that has one expert receives a token from a sender at most once, however many experts a token chooses.
TEST(ExpertExchange, HasRoomForATokenOnceForEachExpertHere) {
  const auto rows_of = [](const std::string& experts) {
    std::int64_t rows = 0;
    const session::Session session = moesh::test::session(
        "decoder_block=mixtral override_model_config=true max_target_length=16 per_device_batch_size=1 compile_topology=cpu-4 "
        "ici_fsdp_parallelism=1 ici_expert_parallelism=4 num_experts_per_tok=3 " +
        experts);
    moesh::test::see_all(session.graph, [&](const graph::Graph& graph, const graph::Node& node) {
      const auto* of = std::get_if<graph::GroupOf>(&node.attributes);
      if (node.op == Op::exchange_rows && !of->back) rows = std::max(rows, graph.value(node.results[0]).shape[0]);
    });
    return rows;
  };
  EXPECT_EQ(rows_of("num_experts=4"), 4 * 16);
  EXPECT_EQ(rows_of("num_experts=8"), 4 * 16 * 2);
  EXPECT_EQ(rows_of("num_experts=16"), 4 * 16 * 3);
  EXPECT_EQ(rows_of("num_experts=16 ragged_buffer_factor=2"), 2 * 16 * 3) << "twice the rows of an even load";
  EXPECT_EQ(rows_of("num_experts=16 ragged_buffer_factor=50"), 4 * 16 * 3) << "never more than all";
}

}  // namespace
}  // namespace moesh::nn
