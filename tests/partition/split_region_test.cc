// After the split a region's nodes are collectives or kernels of one device; nothing else is changed.
#include "partition/split_region.h"

#include <set>

#include <gtest/gtest.h>

#include "graph/facts.h"
#include "graph/parse.h"
#include "graph/print.h"
#include "partition/collectives.h"
#include "tests/support.h"
#include "train/program.h"

namespace moesh::partition {
namespace {

using graph::Op;

const std::string kRegionInputs =
    "mesh {expert=4}\n"
    "%0: float32[8, 6] as [-, -]+own(expert) = input labels=(-, -)  # x\n"
    "%1: int32[12] as [-]+own(expert) = input labels=(-)  # order\n"
    "%2: int32[3] as [-]+own(expert) = input labels=(-)  # sizes\n"
    "%3: float32[12] as [-]+own(expert) = input labels=(-)  # weights\n";

std::string split(const std::string& text) {
  const graph::ParsedGraph parsed = graph::parse_graph(text);
  graph::RegionOf region;
  region.body = std::make_shared<const graph::Graph>(parsed.graph);
  return graph::to_text(*split_region(region).body, &*parsed.mesh);
}

// Two fetches of the same tokens gather them once.
TEST(SplitRegion, FetchesRowsOfTokensThatAreGathered) {
  EXPECT_EQ(split(kRegionInputs +
                  "%4: float32[12, 6] as [-, -]+own(expert) = fetch_rows %0, %1, %2 axes=(expert) members=4 choices=2  # once\n"
                  "%5: float32[12, 6] as [-, -]+own(expert) = fetch_rows %0, %1, %2 axes=(expert) members=4 choices=2  # again\n"
                  "return %4, %5\n"),
            kRegionInputs +
                "%4: float32[32, 6] as [-, -] = gather %0 axes=(expert) members=4  # once/gather\n"
                "%5: float32[12, 6] as [-, -]+own(expert) = fetch_rows %4, %1, %2 choices=2  # once\n"
                "%6: float32[12, 6] as [-, -]+own(expert) = fetch_rows %4, %1, %2 choices=2  # again\n"
                "return %5, %6\n");
}

TEST(SplitRegion, SumsRowsHereAndScattersTheSums) {
  const std::string group = "choices=2 experts=12 experts_here=3";
  EXPECT_EQ(split(kRegionInputs +
                  "%4: float32[12, 6] as [-, -]+own(expert) = input labels=(-, -)  # rows\n"
                  "%5: float32[8, 6] as [-, -]+own(expert) = return_rows %4, %1, %2, %3 axes=(expert) members=4 " + group + "  # back\n"
                  "%6: float32[8, 6] as [-, -]+own(expert) = return_rows %4, %1, %2 axes=(expert) members=4 " + group + "  # bare\n"
                  "return %5, %6\n"),
            kRegionInputs +
                "%4: float32[12, 6] as [-, -]+own(expert) = input labels=(-, -)  # rows\n"
                "%5: int32[12] as [-]+own(expert), %6: int32[12] as [-]+own(expert), %7: int32[12] as [-]+own(expert), "
                "%8: int32[] as []+own(expert) = list_tokens %1, %2 " + group + "  # back/tokens\n"
                "%9: float32[12, 6] as [-, -]+own(expert) = sum_rows %4, %7, %6, %8, %3  # back/sum\n"
                "%10: float32[8, 6] as [-, -]+own(expert) = scatter_rows %9, %5, %8 axes=(expert) members=4 " + group + "  # back/scatter\n"
                "%11: float32[12, 6] as [-, -]+own(expert) = sum_rows %4, %7, %6, %8  # bare/sum\n"
                "%12: float32[8, 6] as [-, -]+own(expert) = scatter_rows %11, %5, %8 axes=(expert) members=4 " + group + "  # bare/scatter\n"
                "return %10, %12\n");
}

// A device that has all tokens returns rows to itself.
TEST(SplitRegion, LeavesWhatADeviceDoesAlone) {
  const std::string alone = kRegionInputs +
                            "%4: float32[12, 6] as [-, -]+own(expert) = fetch_rows %0, %1, %2 choices=2  # fetch\n"
                            "%5: float32[8, 6] as [-, -]+own(expert) = return_rows %4, %1, %2 choices=2  # back\n"
                            "return %5\n";
  EXPECT_EQ(split(alone), alone);
}

struct Seen {
  std::set<std::string> ops;       // ops in regions
  std::size_t collectives = 0;     // collectives anywhere in the program
};

void see(const graph::Graph& graph, bool in_region, Seen& seen) {
  for (const graph::Node& node : graph.nodes) {
    if (const graph::Graph* body = graph::body_of(node)) see(*body, node.op == Op::region, seen);
    const bool is_collective = graph::collective_of(node).has_value();
    seen.collectives += is_collective ? 1 : 0;
    if (in_region) seen.ops.insert(std::string(name_of(node.op)));
    const auto* group = std::get_if<graph::GroupOf>(&node.attributes);
    if (group == nullptr || group->members == 1 || is_collective) continue;
    // These two ops only use the device's index in its group.
    EXPECT_TRUE(node.op == Op::device_index || node.op == Op::own_once) << name_of(node.op) << " " << node.path;
  }
}

// A request that selects how experts are reached, and an op that shows that it was selected.
struct Strategy {
  std::string request;
  std::string shown_by;
};

TEST(SplitRegion, LeavesOnlyCollectivesAndKernelsOfOneDevice) {
  const std::string mixtral = "override_model_config=true base_num_decoder_layers=2 model_name=mixtral-8x7b compile_topology=v5p-16 ";
  const std::string gpt_oss = "override_model_config=true base_num_decoder_layers=2 model_name=gpt-oss-20b compile_topology=v5p-16 ";
  const std::vector<Strategy> strategies{
      {mixtral + "ici_expert_parallelism=4 ici_fsdp_parallelism=2 use_ring_of_experts=true", "scatter_rows"},
      {mixtral + "ici_expert_parallelism=4 ici_fsdp_parallelism=2 use_ring_of_experts=true remat_policy=minimal", "scatter_rows"},
      {mixtral + "ici_expert_parallelism=8 use_ring_of_experts=true num_moe_token_chunks=2 num_moe_emb_chunks=2", "scatter_rows"},
      {mixtral + "ici_expert_parallelism=8 use_ring_of_experts=true custom_mesh_and_rule=ep-tp", "device_index"},
      {mixtral + "ici_expert_parallelism=4 ici_fsdp_parallelism=2", "exchange_rows"},
      {mixtral + "ici_expert_parallelism=2 ici_fsdp_parallelism=2 ici_tensor_parallelism=2 scan_layers=false", "exchange_rows"},
      {mixtral + "ici_fsdp_parallelism=8", "return_rows"},
      {gpt_oss + "ici_expert_parallelism=2 ici_fsdp_parallelism=2 ici_tensor_parallelism=2 use_ring_of_experts=true", "own_once"},
      {mixtral + "ici_expert_parallelism=4 ici_fsdp_parallelism=2 sparse_matmul=false", ""},
      {mixtral + "ici_expert_parallelism=4 ici_fsdp_parallelism=2 sparse_matmul=false capacity_factor=1.25", ""},
  };
  for (const Strategy& strategy : strategies) {
    const auto session = test::session(strategy.request);
    const train::StepProgram step = train::step_program(session.graph, session.loaded.settings, {session.layout, session.target});
    Seen seen;
    see(step.graph, false, seen);
    EXPECT_EQ(collectives_of(step.graph, session.mesh).size(), seen.collectives) << strategy.request;
    EXPECT_GT(seen.collectives, 0u) << strategy.request;
    EXPECT_TRUE(strategy.shown_by.empty() ? seen.ops.empty() : seen.ops.contains(strategy.shown_by)) << strategy.request;
  }
}

}  // namespace
}  // namespace moesh::partition
