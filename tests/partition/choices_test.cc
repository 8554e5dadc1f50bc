// Tests of the partitioner on short graphs: the graph before and after, and what is reported of the choices.
#include <fmt/core.h>
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

// The seconds of the last node's choice in a graph of these nodes.
double seconds_of_last(const std::vector<std::string>& nodes, const std::string& roots, const std::vector<sharding::Spec>& specs,
                       const sharding::Spec& result) {
  std::string text = roots;
  std::size_t value = specs.size();
  std::string returned;
  for (const std::string& node : nodes) {
    text += fmt::format("%{}: {}\n", value, node);
    returned += fmt::format("{} %{} as y{}", returned.empty() ? "return" : ",", value, value);
    ++value;
  }
  const mesh::Topology target = mesh::find_topology("v5p-8", 1);
  const std::vector<config::AxisRule> rules;
  const std::vector<Want> results(nodes.size(), result);
  return partition(graph::parse_graph(text + returned + "\n").graph, specs, results, {kFour, target, rules}).choices.back().chosen.seconds;
}

// Answers are kept for questions that come again. Two ops that differ in one attribute only are two questions.
TEST(Choices, ArePricedByTheAttributesOfTheirOwnOp) {
  const std::string attention = "float32[4, 4096, 8, 64] = attention %0, %1, %2, %3, %4 ";
  const std::string roots =
      "%0: float32[4, 4096, 8, 64] = input labels=(-, -, -, -)  # q\n%1: float32[4, 4096, 8, 64] = input labels=(-, -, -, -)  # k\n"
      "%2: float32[4, 4096, 8, 64] = input labels=(-, -, -, -)  # v\n%3: int32[4, 4096] = input labels=(-, -)  # p\n"
      "%4: int32[4, 4096] = input labels=(-, -)  # s\n";
  const sharding::Spec by_length{{{}, {0}, {}, {}}, {}};
  const std::vector<sharding::Spec> specs{by_length, by_length, by_length, {{{}, {0}}, {}}, {{{}, {0}}, {}}};
  // The first of three has the others' operands gathered, so these have equal layouts to choose from.
  const auto last_of = [&](const std::string& second, const std::string& third) {
    return seconds_of_last({attention + "  # a", attention + second, attention + third}, roots, specs, by_length);
  };
  const std::vector<std::string> kinds{"balanced_over=1  # a", "window=64 balanced_over=1  # a", "window=256 balanced_over=1  # a",
                                       "chunk=512 balanced_over=1  # a", "balanced_over=4  # a"};
  for (const std::string& first : kinds) {
    for (const std::string& second : kinds) {
      SCOPED_TRACE(first + " before " + second);
      EXPECT_EQ(last_of(first, second), last_of(second, second));
    }
  }
  EXPECT_NE(last_of(kinds[0], kinds[0]), last_of(kinds[1], kinds[1]));
  EXPECT_NE(last_of(kinds[0], kinds[0]), last_of(kinds[4], kinds[4]));
}

// One token of a row whose cache has 65,536 slots: with a window, the kernel reads 128 of them.
TEST(Choices, ArePricedByWhatAKernelReads) {
  const std::string roots =
      "%0: float32[4, 1, 8, 64] = input labels=(-, -, -, -)  # q\n%1: float32[4, 65536, 8, 64] = input labels=(-, -, -, -)  # k\n"
      "%2: float32[4, 65536, 8, 64] = input labels=(-, -, -, -)  # v\n%3: int32[4, 1] = input labels=(-, -)  # p\n"
      "%4: int32[4, 1] = input labels=(-, -)  # s\n%5: int32[4, 65536] = input labels=(-, -)  # kp\n"
      "%6: int32[4, 65536] = input labels=(-, -)  # ks\n";
  const sharding::Spec by_row{{{0}, {}, {}, {}}, {}}, tokens{{{0}, {}}, {}};
  const auto seconds = [&](const std::string& window) {
    return seconds_of_last({"float32[4, 1, 8, 64] = attention %0, %1, %2, %3, %4, %5, %6" + window + "  # a"}, roots,
                           {by_row, by_row, by_row, tokens, tokens, tokens, tokens}, by_row);
  };
  EXPECT_LT(10 * seconds(" window=128"), seconds(""));
}

}  // namespace
}  // namespace moesh::partition
