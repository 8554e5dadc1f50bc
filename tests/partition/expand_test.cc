// Tests of expansion: ops whose layout needs their parts are written out, and others stay as they are.
#include "partition/expand.h"

#include <regex>

#include <gtest/gtest.h>

#include "graph/parse.h"
#include "graph/print.h"
#include "tests/support.h"

namespace moesh::partition {
namespace {

const mesh::Mesh kFourDevices({{"x", 4, 1}});

std::string expanded(const std::string& text, const std::string& label) {
  const graph::Graph graph = graph::parse_graph(text).graph;
  const mesh::Topology target = mesh::find_topology("cpu-4", 1);
  const std::vector<config::AxisRule> rules{test::rule(label, {"x"})};
  return graph::to_text(expand(graph, std::vector<Want>(graph.results.size()), {kFourDevices, target, rules}));
}

const std::string kNorm =
    "%0: float32[2, 8] = input labels=(batch, embed)  # x\n"
    "%1: float32[8] = parameter labels=(-)  # scale\n"
    "%2: float32[2, 8] = constraint %0 labels=(batch, embed)  # laid\n"
    "%3: float32[2, 8] = rms_norm %2, %1  # norm\n"
    "return %3 as y\n";

TEST(Expand, LeavesANormOfWholeRowsAsItIs) { EXPECT_EQ(expanded(kNorm, "batch"), kNorm); }

TEST(Expand, MakesTheSumsOfANormOfRowsInPiecesFirst) {
  EXPECT_EQ(expanded(kNorm, "embed"),
            "%0: float32[2, 8] = input labels=(batch, embed)  # x\n"
            "%1: float32[8] = parameter labels=(-)  # scale\n"
            "%2: float32[2, 8] = constraint %0 labels=(batch, embed)  # laid\n"
            "%3: float32[2] = row_dot %2, %2  # norm/dot\n"
            "%4: float32[2, 8] = rms_norm_of_dots %2, %1, %3 width=8  # norm\n"
            "return %4 as y\n");
}

// A forward pass saves the rows that it norms; the loop of the backward pass is given them as they lie there.
TEST(Expand, KnowsTheRowsThatTheForwardPassHasSaved) {
  const auto step = [](const std::string& norm, const std::string& gradient) {
    return "%0: float32[3, 2, 8] = input labels=(layers, batch, embed)  # x\n"
           "%1: float32[8] = parameter labels=(-)  # scale\n"
           "%2: float32[3, 2, 8], %3: float32[3, 2, 8] = repeat %1, %0 sizes=[3] labels=(layers) shared=1 slices=[0] stacks=[0, 0]  "
           "# layers\n"
           "  %0: float32[8] = input labels=(-)  # layers/scale\n"
           "  %1: float32[2, 8] = input labels=(batch, embed)  # layers/x\n"
           "  %2: float32[2, 8] = unary %1 function=exp  # layers/exp\n"
           "  %3: float32[2, 8] = constraint %2 labels=(batch, embed)  # layers/laid\n" +
           norm +
           "%4: float32[3, 2, 8], %5: float32[3, 8] = repeat %1, %2, %3 sizes=[3] labels=(layers) shared=1 slices=[0, 0] stacks=[0, 0] "
           "phase backward  # layers'\n"
           "  %0: float32[8] = input labels=(-) phase backward  # layers'/scale\n"
           "  %1: float32[2, 8] = input labels=(-, -) phase backward  # layers'/dy\n"
           "  %2: float32[2, 8] = input labels=(-, -) phase backward  # layers'/x\n" +
           gradient + "return %4 as dx, %5 as dscale\n";
  };
  const std::string whole = step(
      "  %4: float32[2, 8] = rms_norm %3, %0  # layers/norm\n"
      "  return %4, %3\n",
      "  %3: float32[2, 8], %4: float32[8] = rms_norm_grad %2, %0, %1 phase backward  # layers'/norm\n"
      "  return %3, %4\n");
  EXPECT_EQ(expanded(whole, "batch"), whole);
  EXPECT_EQ(expanded(whole, "embed"),
            step("  %4: float32[2] = row_dot %3, %3  # layers/norm/dot\n"
                 "  %5: float32[2, 8] = rms_norm_of_dots %3, %0, %4 width=8  # layers/norm\n"
                 "  return %5, %3\n",
                 "  %3: float32[2] = row_dot %2, %2 phase backward  # layers'/norm/dot\n"
                 "  %4: float32[2] = row_dot %2, %1, %0 phase backward  # layers'/norm/dot\n"
                 "  %5: float32[2, 8], %6: float32[8] = rms_norm_grad_of_dots %2, %0, %1, %3, %4 width=8 phase backward  # layers'/norm\n"
                 "  return %5, %6\n"));
}

// A norm that is not given the sums of whole rows would ignore their width, so it refuses a width.
TEST(Expand, ANormOfWholeRowsRefusesPieces) {
  const std::string pieces = std::regex_replace(kNorm, std::regex("rms_norm %2, %1"), "rms_norm %2, %1 width=16");
  EXPECT_NE(test::message_of([&] { graph::parse_graph(pieces); }).find("a norm with a scale"), std::string::npos);
}

// Each device has a shard of the vocabulary. The log-sum-exps of the shards are computed first, once for the loss and its gradient.
TEST(Expand, WritesALossOverASpreadVocabularyAsThatOfShares) {
  const std::string inputs =
      "%0: float32[2, 4, 16] = input labels=(batch, length, vocab)  # logits\n"
      "%1: int32[2, 4] = input labels=(batch, length)  # targets\n"
      "%2: int32[2, 4] = input labels=(batch, length)  # segments\n"
      "%3: float32[2, 4, 16] = constraint %0 labels=(batch, length, vocab)  # laid\n";
  const std::string loss = inputs +
                           "%4: float32[] = cross_entropy %3, %1, %2  # loss\n"
                           "%5: float32[2, 4, 16] = cross_entropy_grad %3, %1, %2, %4  # gradient\n"
                           "return %4 as loss, %5 as dlogits\n";
  EXPECT_EQ(expanded(loss, "batch"), loss);
  EXPECT_EQ(expanded(loss, "vocab"), inputs +
                                         "%4: float32[2, 4], %5: float32[2, 4, 4] = vocab_scores %3, %1  # loss/scores\n"
                                         "%6: float32[] = cross_entropy_of_scores %4, %5, %2  # loss\n"
                                         "%7: float32[2, 4, 16] = cross_entropy_grad %3, %1, %2, %6, %5  # gradient\n"
                                         "return %6 as loss, %7 as dlogits\n");
}

// Logits of 18 words over four devices are gathered: two pieces of them are equal.
TEST(Expand, MakesPiecesOfAVocabularyOfEqualSize) {
  const auto of_words = [](const std::string& words) {
    return expanded("%0: float32[2, 4, " + words + "] = input labels=(batch, length, vocab)  # logits\n"
                    "%1: int32[2, 4] = input labels=(batch, length)  # targets\n"
                    "%2: float32[2, 4, " + words + "] = constraint %0 labels=(batch, length, vocab)  # laid\n"
                    "%3: float32[] = cross_entropy %2, %1, %1  # loss\n"
                    "return %3 as loss\n", "vocab");
  };
  EXPECT_NE(of_words("18").find("%4: float32[2, 4, 2] = vocab_scores"), std::string::npos) << of_words("18");
  EXPECT_NE(of_words("17").find("%4: float32[2, 4, 1] = vocab_scores"), std::string::npos) << of_words("17");
}

// Each device has some of the queries of each row: the highest score of each shard is found first.
TEST(Expand, FindsTheHighestScoreOfEachShardFirst) {
  const std::string attention =
      "%0: float32[2, 8, 4, 6] = input labels=(batch, length, -, -)  # x\n"
      "%1: int32[2, 8] = input labels=(batch, length)  # order\n"
      "%2: float32[2, 8, 4, 6] = constraint %0 labels=(batch, length, -, -)  # query\n"
      "%3: float32[2, 8, 4, 6], %4: float32[2, 8, 4] = attention %2, %0, %0, %1, %1";
  const auto with = [&](const std::string& keys, const std::string& rest) {
    return attention + keys + "  # attention\n" + rest + "return %3 as y, %5 as highest\n";
  };
  const std::string text = with("", "%5: float32[1, 1, 4] = highest %4  # highest\n");
  const auto in_pieces = [&](const std::string& pieces) {
    std::string made = with(", %1, %1", "%5: float32" + pieces + " = highest %4  # highest/of_shards\n" +
                                            "%6: float32[1, 1, 4] = highest %5  # highest\n");
    return std::regex_replace(made, std::regex("%5 as highest"), "%6 as highest");
  };
  EXPECT_EQ(expanded(text, "length"), in_pieces("[1, 4, 4]"));
  EXPECT_EQ(expanded(text, "batch"), in_pieces("[2, 1, 4]"));
  EXPECT_EQ(expanded(text, "other"), with(", %1, %1", "%5: float32[1, 1, 4] = highest %4  # highest\n"));
}

}  // namespace
}  // namespace moesh::partition
