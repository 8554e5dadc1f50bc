// Tests which casts are removed.
#include "partition/fold_casts.h"

#include <regex>

#include <gtest/gtest.h>

#include "graph/parse.h"
#include "graph/print.h"
#include "tests/support.h"
#include "tests/train/trainer_support.h"

namespace moesh::partition {
namespace {

std::string folded(const std::string& text) { return graph::to_text(with_casts_folded(graph::parse_graph(text).graph)); }

const std::string kFactors =
    "%0: bfloat16[2, 3] = input labels=(-, -)  # x\n"
    "%1: bfloat16[3, 4] = input labels=(-, -)  # w\n";

TEST(FoldCasts, MakesAProductAsWideAsItIsRead) {
  EXPECT_EQ(folded(kFactors + "%2: bfloat16[2, 4] = einsum %0, %1 equation=\"ab,bc->ac\"  # product\n"
                              "%3: float32[2, 4] = cast %2  # cast\n"
                              "return %3 as y\n"),
            kFactors +
                "%2: float32[2, 4] = einsum %0, %1 equation=\"ab,bc->ac\"  # product\n"
                "return %2 as y\n");
}

TEST(FoldCasts, LeavesWhatOthersReadOrWhatIsNoProduct) {
  for (const std::string rest : {"%2: bfloat16[2, 4] = einsum %0, %1 equation=\"ab,bc->ac\"  # product\n"
                                  "%3: float32[2, 4] = cast %2  # cast\n"
                                  "return %3 as y, %2 as product\n",
                                  "%2: bfloat16[2, 3] = unary %0 function=silu  # product\n"
                                  "%3: float32[2, 3] = cast %2  # cast\n"
                                  "return %3 as y\n",
                                  "%2: bfloat16[2, 4] = einsum %0, %1 equation=\"ab,bc->ac\"  # product\n"
                                  "%3: bfloat16[2, 4] = unary %2 function=silu  # silu\n"
                                  "%4: float32[2, 4] = cast %3  # cast\n"
                                  "return %4 as y\n"}) {
    EXPECT_EQ(folded(kFactors + rest), kFactors + rest);
  }
}

TEST(FoldCasts, LooksRowsUpInTheTableAsItWas) {
  const std::string inputs = "%0: float32[9, 4] = input labels=(-, -)  # table\n%1: int32[2, 3] = input labels=(-, -) kind=batch  # tokens\n";
  EXPECT_EQ(folded(inputs + "%2: bfloat16[9, 4] = cast %0  # cast\n%3: bfloat16[2, 3, 4] = embed %2, %1  # embed\nreturn %3 as y\n"),
            inputs + "%2: bfloat16[2, 3, 4] = embed %0, %1  # embed\nreturn %2 as y\n");
}

TEST(FoldCasts, ScoresTheVocabularyByTheTableAsItWas) {
  const std::string inputs =
      "%0: float32[9, 4] = input labels=(-, -)  # table\n%1: int32[2, 3] = input labels=(-, -) kind=batch  # tokens\n"
      "%2: bfloat16[2, 3, 4] = input labels=(-, -, -)  # x\n";
  EXPECT_EQ(folded(inputs + "%3: bfloat16[9, 4] = cast %0  # cast\n%4: float32[] = vocab_loss %2, %3, %1, %1 by_token=true  # loss\n"
                            "return %4 as loss\n"),
            inputs + "%3: float32[] = vocab_loss %2, %0, %1, %1 by_token=true  # loss\nreturn %3 as loss\n");
  const std::string of_bfloat16 = std::regex_replace(inputs, std::regex("float32\\[9"), "bfloat16[9") +
                                  "%3: float32[9, 4] = cast %0  # cast\n%4: float32[2, 3, 4] = cast %2  # cast\n"
                                  "%5: float32[] = vocab_loss %4, %3, %1, %1 by_token=true  # loss\nreturn %5 as loss\n";
  EXPECT_EQ(folded(of_bfloat16), of_bfloat16);
}

// The loss sums the gradient of its table in float32. That of x stays as it is.
TEST(FoldCasts, TakesTheGradientOfTheVocabularysTableBeforeItIsRounded) {
  const std::string inputs =
      "%0: bfloat16[9, 4] = input labels=(-, -)  # table\n%1: int32[2, 3] = input labels=(-, -) kind=batch  # tokens\n"
      "%2: bfloat16[2, 3, 4] = input labels=(-, -, -)  # x\n%3: float32[] = input  # dsum\n";
  const std::string loss = "vocab_loss %2, %0, %1, %1, %3 by_token=true  # loss\n";
  EXPECT_EQ(folded(inputs + "%4: float32[], %5: bfloat16[2, 3, 4], %6: bfloat16[9, 4] = " + loss +
                   "%7: float32[2, 3, 4] = cast %5  # cast\n%8: float32[9, 4] = cast %6  # cast\nreturn %4 as loss, %7 as dx, %8 as dtable\n"),
            inputs + "%4: float32[], %5: bfloat16[2, 3, 4], %6: float32[9, 4] = " + loss +
                "%7: float32[2, 3, 4] = cast %5  # cast\nreturn %4 as loss, %7 as dx, %6 as dtable\n");
}

// This includes the experts, whose products are in a region of a layer.
TEST(FoldCasts, LeavesNoGradientOfAMatrixThatIsRoundedOnItsWay) {
  for (const std::string more : {"", "logits_via_embedding=true"}) {
    const test::Training training(test::kTinyMixtral + "dtype=bfloat16 " + more);
    for (const plan::Instruction& of : training.trainer.plan().instructions) {
      const bool widens = of.op == graph::Op::cast && training.trainer.plan().view(of.results[0]).dtype == DType::float32;
      if (!widens || of.phase != graph::Phase::backward) continue;
      EXPECT_TRUE(of.path.find("norm") != std::string::npos) << of.path;
    }
  }
}

}  // namespace
}  // namespace moesh::partition
