// Muon needs whole matrices. If the experts' dim is sharded over the axis that shards parameters, each device has whole ones. Otherwise
// they are distributed to the devices once, the experts of one layer at a time, and only the collectives there and back send much.
#include <gtest/gtest.h>

#include "partition/collectives.h"
#include "tests/support.h"
#include "train/program.h"

namespace moesh::partition {
namespace {

// The collectives in the update of a step whose values are at least as large as one expert weight of one layer.
std::vector<Collective> sent(const std::string& request) {
  const session::Session session = test::session("model_name=deepseek2-16b compile_topology=v5p-16 ici_fsdp_parallelism=8 "
                                             "sparse_matmul=false opt_type=muon " + request);
  const train::StepProgram step =
      train::step_program(session.graph, session.loaded.settings, {session.layout, session.target});
  graph::Graph update = step.graph;
  std::erase_if(update.nodes, [](const graph::Node& node) { return node.phase != graph::Phase::update; });
  std::vector<Collective> large;
  for (const Collective& collective : collectives_of(update, session.mesh)) {
    if (elements(collective.shape) >= std::int64_t{64} * 1408 * 2048) large.push_back(collective);
  }
  return large;
}

TEST(MuonPartition, DealsMatricesOutToTheDevicesOnce) {
  for (const char* mesh : {"", "ici_fsdp_parallelism=2 ici_expert_parallelism=4", "ici_fsdp_parallelism=4 ici_expert_parallelism=2"}) {
    const std::vector<Collective> large = sent(mesh);
    EXPECT_EQ(large.size(), 6u) << "three weights, there and back; " << mesh;
    for (const Collective& collective : large) {
      EXPECT_EQ(collective.kind, graph::ReshardOf::Kind::all_to_all) << mesh;
      EXPECT_EQ(elements(collective.shape) * collective.runs, std::int64_t{26} * 64 * 1408 * 2048) << "of 26 layers, each once; " << mesh;
    }
  }
}

TEST(MuonPartition, SendsNothingWhereDevicesHaveWholeMatrices) {
  EXPECT_TRUE(sent("custom_mesh_and_rule=shard-exp-on-fsdp").empty());
}

}  // namespace
}  // namespace moesh::partition
