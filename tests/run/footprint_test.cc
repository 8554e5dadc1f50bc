// What a program will hold, known before it runs.
#include "run/footprint.h"

#include <gtest/gtest.h>

#include "graph/builder.h"
#include "partition/partition.h"

namespace moesh::run {
namespace {

// A device has a quarter of the value, then all of it: 4 KiB twice, then 4 and 16.
TEST(Footprint, OfADeviceCountsWhatItGathers) {
  graph::Builder builder;
  builder.mark_result(graph::scale(builder.input("x", {64, 64}, DType::float32, {"", ""}), 2));
  const mesh::Mesh mesh({{"x", 4, 1}});
  const mesh::Topology target = mesh::find_topology("cpu-4", 1);
  const std::vector<config::AxisRule> rules;
  const sharding::Spec rows{{{0}, {}}, {}}, whole{{{}, {}}, {}};
  const graph::Graph graph = partition::partition(builder.take(), {rows}, {whole}, {mesh, target, rules, false, false}).graph;
  const Footprint footprint = footprint_of(graph, mesh, [](const graph::Node&) { return false; });
  EXPECT_EQ(footprint.device, (4 + 16) * 1024);
  EXPECT_EQ(footprint.process, (16 + 16) * 1024) << "all quarters, and what all devices have alike once";
}

}  // namespace
}  // namespace moesh::run
