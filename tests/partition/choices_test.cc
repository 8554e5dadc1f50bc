// Tests of the partitioner on short graphs: the graph before and after, and what is reported of the choices.
#include <gtest/gtest.h>

#include "graph/parse.h"
#include "graph/print.h"
#include "partition/partition.h"
#include "tests/support.h"

namespace moesh::partition {
namespace {

const mesh::Mesh kFour({{"x", 4, 1}});

Partitioned partitioned(const std::string& text, const std::vector<sharding::Spec>& roots, const sharding::Spec& result) {
  const mesh::Topology target = mesh::find_topology("cpu-4", 1);
  const std::vector<config::AxisRule> rules;
  return partition(graph::parse_graph(text).graph, roots, {result}, {kFour, target, rules});
}

constexpr const char* kProduct =
    "%0: float32[4096, 16] = input labels=(batch, -)  # x\n"
    "%1: float32[16, 4] = parameter labels=(embed, -)  # w\n"
    "%2: float32[4096, 4] = einsum %0, %1 equation=\"bm,mn->bn\"  # y\n"
    "return %2 as y\n";
const sharding::Spec kRows{{{0}, {}}, {}};

// There are few weights and many activations, so the weights are gathered.
TEST(Choices, GatherFewWeights) {
  const Partitioned made = partitioned(kProduct, {kRows, kRows}, kRows);
  EXPECT_EQ(graph::to_text(made.graph, &kFour),
            "mesh {x=4}\n"
            "%0: float32[4096, 16] as [(x), -] = input labels=(batch, -)  # x\n"
            "%1: float32[16, 4] as [(x), -] = parameter labels=(embed, -)  # w\n"
            "%2: float32[16, 4] as [-, -] = reshard %1 kind=all-gather axes=(x) from=0  # y\n"
            "%3: float32[4096, 4] as [(x), -] = einsum %0, %2 equation=\"bm,mn->bn\"  # y\n"
            "return %3 as y\n");
  EXPECT_EQ(graph::to_text(made.expanded), kProduct) << "nothing in it had to be written out";
}

TEST(Choices, TellWhatTheyCostBesideTheNextBest) {
  const std::vector<Choice> choices = partitioned(kProduct, {kRows, kRows}, kRows).choices;
  ASSERT_EQ(choices.size(), 1u);
  EXPECT_EQ(choices[0].path, "y");
  EXPECT_EQ(choices[0].op, graph::Op::einsum);
  EXPECT_EQ(choices[0].equation, "bm,mn->bn");
  EXPECT_EQ(choices[0].phase, graph::Phase::forward);
  EXPECT_EQ(to_string(choices[0].chosen, kFour), "[x, -], [-, -] -> [x, -]");
  EXPECT_NE(to_string(choices[0].runner_up, kFour), to_string(choices[0].chosen, kFour));
  EXPECT_GT(choices[0].chosen.seconds, 0);
  EXPECT_LT(choices[0].chosen.seconds, choices[0].runner_up.seconds);
}

// Choices are reported for ops other than products too.
TEST(Choices, AreToldOfEveryOpThatHadOne) {
  const Partitioned made = partitioned(
      "%0: float32[64, 64] = input labels=(-, -)  # a\n"
      "%1: float32[64, 64] = input labels=(-, -)  # b\n"
      "%2: float32[64, 64] = binary %0, %1 function=add phase backward  # sum\n"
      "return %2 as y\n",
      {kRows, {{{}, {0}}, {}}}, kRows);
  ASSERT_EQ(made.choices.size(), 1u);
  EXPECT_EQ(made.choices[0].op, graph::Op::binary);
  EXPECT_EQ(made.choices[0].equation, "");
  EXPECT_EQ(made.choices[0].phase, graph::Phase::backward);
}

}  // namespace
}  // namespace moesh::partition
