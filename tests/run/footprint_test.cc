// What a program will hold, known before it runs.
#include "run/footprint.h"

#include <gtest/gtest.h>

#include "graph/region.h"
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
  const graph::Graph graph = partition::partition(builder.take(), {rows}, {whole}, {mesh, target, rules}).graph;
  const Footprint footprint = footprint_of(graph, mesh, [](const graph::Node&) { return false; });
  EXPECT_EQ(footprint.device, (4 + 16) * 1024);
  EXPECT_EQ(footprint.process, (16 + 16) * 1024) << "all quarters, and what all devices have alike once";
}

// A device gathers 64 KiB of tokens, of which it has 16, and takes rows of 8 KiB; order and sizes are 64 bytes each. In the
// process the gathered tokens exist once, for all four devices.
TEST(Footprint, OfRowsCountsTheTokensThatTheyAreTakenFrom) {
  const mesh::Mesh mesh({{"x", 4, 1}});
  const sharding::Spec matrix{{{0}, {}}, {}}, vector{{{0}}, {}};
  graph::Builder builder;
  const graph::Tensor x = builder.input("x", {64, 256}, DType::float32, {"", ""});
  const graph::Tensor order = builder.input("order", {32}, DType::int32, {""}),
                      sizes = builder.input("sizes", {4}, DType::int32, {""});
  const auto body = [&](graph::Builder&, const std::vector<graph::Tensor>& in) {
    const graph::Tensor rows = graph::fetch_rows(in[0], {in[1], in[2], {}}, graph::group_of({0}, mesh));
    return std::vector<graph::RegionResult>{{rows, {32, 256}, matrix}};
  };
  builder.mark_result(
      graph::region(builder, "body", "test", {{x, matrix}, {order, vector}, {sizes, vector}}, mesh, body).front());
  const mesh::Topology target = mesh::find_topology("cpu-4", 1);
  const std::vector<config::AxisRule> rules;
  const graph::Graph graph =
      partition::partition(builder.take(), {matrix, vector, vector}, {std::nullopt}, {mesh, target, rules}).graph;
  const Footprint footprint = footprint_of(graph, mesh, [](const graph::Node&) { return false; });
  EXPECT_EQ(footprint.device, (16 + 64 + 8) * 1024 + 2 * 64);
  EXPECT_EQ(footprint.process, (4 * 16 + 64 + 4 * 8) * 1024 + 4 * 2 * 64);
}

}  // namespace
}  // namespace moesh::run
