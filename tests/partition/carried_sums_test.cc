// Tests of partial sums that a loop carries: they are added up on each device, and reduced once, after the loop.
#include <gtest/gtest.h>

#include "graph/parse.h"
#include "graph/print.h"
#include "partition/partition.h"
#include "run/program.h"
#include "tests/support.h"

namespace moesh::partition {
namespace {

using sharding::Spec;

const mesh::Mesh kMesh({{"data", 2, 1}, {"fsdp", 2, 1}});

// Three microbatches of x[8, 4] and y[8, 6]: their products are added up. `laid`: the constraint of a product and of the sum.
std::string summing(const std::string& laid, const std::string& begin = "fill") {
  return "%0: float32[3, 8, 4] = input labels=(-, rows, -)  # x\n"
         "%1: float32[3, 8, 6] = input labels=(-, rows, -)  # y\n"
         "%2: float32[4, 6] = " + begin + " phase backward  # begin\n"
         "%3: float32[4, 6] = repeat %2, %0, %1 sizes=[3] labels=(-) carried=1 slices=[0, 0] phase backward  # passes\n"
         "  %0: float32[4, 6] = input labels=(-, -) phase backward  # passes/carried\n"
         "  %1: float32[8, 4] = input labels=(rows, -) phase backward  # passes/x\n"
         "  %2: float32[8, 6] = input labels=(rows, -) phase backward  # passes/y\n"
         "  %3: float32[4, 6] = einsum %1, %2 equation=\"ra,rb->ab\" phase backward  # passes/product\n"
         "  %4: float32[4, 6] = constraint %3 " + laid + " phase backward  # passes/laid\n"
         "  %5: float32[4, 6] = binary %0, %4 function=add phase backward  # passes/add\n"
         "  %6: float32[4, 6] = constraint %5 " + laid + " phase backward  # passes/sum\n"
         "  return %6\n"
         "%4: float32[4, 6] = constraint %3 labels=(wide, -) phase update  # gradient\n"
         "return %4 as gradient\n";
}

Partitioned partitioned(const std::string& text, const Spec& rows) {
  static const mesh::Topology target = mesh::find_topology("cpu-4", 1);
  static const std::vector<config::AxisRule> rules{test::rule("rows", {"data", "fsdp"}), test::rule("wide", {"fsdp"})};
  return partition(graph::parse_graph(text).graph, {rows, rows}, {std::nullopt}, {kMesh, target, rules});
}

const Spec kOverBoth{{{}, {0, 1}, {}}, {}}, kOverData{{{}, {0}, {}}, {}};

// The lines on collectives, in a body with its indentation.
std::vector<std::string> reshards(const Partitioned& made) {
  std::vector<std::string> found;
  for (const std::string& line : split(graph::to_text(made.graph, &kMesh), '\n')) {
    if (line.find(" = reshard ") != std::string::npos) found.push_back(line);
  }
  return found;
}

TEST(CarriedSums, AreReducedInEachIterationWhereTheLayoutIsAskedFor) {
  const std::vector<std::string> made = reshards(partitioned(summing("labels=(wide, -)"), kOverBoth));
  ASSERT_EQ(made.size(), 2u);
  for (const std::string& line : made) EXPECT_TRUE(line.starts_with("  ")) << line;
}

TEST(CarriedSums, StayPartialOverTheAxesThatShardNothing) {
  const std::vector<std::string> expected{
      "  %4: float32[4, 6] as [(fsdp), -]+sum(data) = reshard %3 kind=reduce-scatter axes=(fsdp) to=0 phase backward  # passes/add",
      "%4: float32[4, 6] as [(fsdp), -] = reshard %3 kind=all-reduce axes=(data) phase update  # gradient"};
  EXPECT_EQ(reshards(partitioned(summing("labels=(wide, -) unreduced=true"), kOverBoth)), expected);
  for (const std::string& line : reshards(partitioned(summing("labels=(-, -) unreduced=true"), kOverBoth))) {
    EXPECT_NE(line.find("phase update"), std::string::npos) << line;
  }
}

// Nothing is a partial sum over fsdp, over which the rows are whole.
TEST(CarriedSums, AreNotPartialOverAxesThatAnIterationDoesNotMakeThemSo) {
  const std::vector<std::string> expected{
      "%4: float32[4, 6] as [(fsdp), -]+sum(data) = reshard %3 kind=slice axes=(fsdp) to=0 phase update  # gradient",
      "%5: float32[4, 6] as [(fsdp), -] = reshard %4 kind=all-reduce axes=(data) phase update  # gradient"};
  EXPECT_EQ(reshards(partitioned(summing("labels=(-, -) unreduced=true"), kOverData)), expected);
}

// A number that every device holds is no partial sum, unless it is zero.
TEST(CarriedSums, BeginWithZeros) {
  const std::vector<std::string> made = reshards(partitioned(summing("labels=(wide, -) unreduced=true", "fill value=1"), kOverBoth));
  EXPECT_EQ(made.size(), 2u);
  for (const std::string& line : made) EXPECT_EQ(line.find("phase update"), std::string::npos) << line;
}

TEST(CarriedSums, AreThoseOfTheWholeGraph) {
  backend::Workers workers(1);
  const auto pool = run::Pool::create();
  for (const std::string laid : {"labels=(wide, -)", "labels=(-, -)", "labels=(-, wide)"}) {
    for (const std::string unreduced : {"", " unreduced=true"}) {
      for (const std::string begin : {"fill", "fill value=1"}) {
        for (const Spec& rows : {kOverBoth, kOverData}) {
          const std::string text = summing(laid + unreduced, begin);
          const graph::Graph whole = graph::parse_graph(text).graph;
          std::vector<run::Array> feeds;
          std::vector<run::Placed> pieces;
          for (const Shape& shape : {Shape{3, 8, 4}, Shape{3, 8, 6}}) {
            feeds.push_back(pool->allocate(shape, DType::float32));
            for (std::int64_t i = 0; i < feeds.back().view.count(); ++i) feeds.back().as<float>()[i] = static_cast<float>(i % 7 - 3);
            pieces.push_back(run::place(feeds.back(), rows, kMesh, *pool));
          }
          const Partitioned made = partitioned(text, rows);
          const run::Array expected = run::evaluate(whole, feeds, workers)[0];
          const run::Array sum = run::gathered(run::evaluate(made.graph, pieces, kMesh, workers)[0], kMesh, *pool, workers);
          for (std::int64_t i = 0; i < expected.view.count(); ++i) ASSERT_EQ(sum.as<float>()[i], expected.as<float>()[i]) << text;
        }
      }
    }
  }
}

}  // namespace
}  // namespace moesh::partition
