// Tests which additions are fused into the op that makes one of their terms, and which are left.
#include "partition/fuse_sums.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/parse.h"
#include "graph/print.h"
#include "tests/support.h"
#include "tests/train/trainer_support.h"

namespace moesh::partition {
namespace {

std::string with_sums(const std::string& text) { return graph::to_text(with_sums_fused(graph::parse_graph(text).graph)); }

std::string rounded(std::string text) {
  const std::string wide = "float32", low = "bfloat16";
  for (std::size_t place = text.find(wide); place != std::string::npos; place = text.find(wide, place)) text.replace(place, wide.size(), low);
  return text;
}

const std::string kAddends =
    "%0: float32[6, 4] = input labels=(-, -)  # a\n"
    "%1: float32[4, 5] = input labels=(-, -)  # b\n"
    "%2: float32[6, 5] = input labels=(-, -)  # x\n"
    "%3: float32[6, 5] = unary %2 function=silu  # silu\n";
const std::string kOneProduct = "%4: float32[6, 5] = einsum %0, %1 equation=\"am,mb->ab\"  # product\n";

TEST(FuseSums, AProductStartsFromWhatEndsThere) {
  for (const std::string terms : {"%3, %4", "%4, %3"}) {
    EXPECT_EQ(with_sums(kAddends + kOneProduct + "%5: float32[6, 5] = binary " + terms + " function=add  # add\nreturn %5 as y\n"),
              kAddends + "%4: float32[6, 5] = einsum %0, %1, %3 equation=\"am,mb->ab\"  # product\nreturn %4 as y\n");
  }
}

TEST(FuseSums, LeavesWhatIsNoSumOfItOrReadBesides) {
  for (const std::string rest : {"%5: float32[6, 5] = binary %3, %4 function=multiply  # times\nreturn %5 as y\n",
                                 "%5: float32[6, 5] = binary %4, %4 function=add  # twice\nreturn %5 as y, %3 as kept\n",
                                 "%5: float32[6, 5] = binary %2, %4 function=add  # of an input\nreturn %5 as y, %3 as kept\n",
                                 "%5: float32[6, 5] = binary %3, %4 function=add  # add\nreturn %5 as y, %4 as product\n",
                                 "%5: float32[6, 5] = binary %3, %4 function=add  # add\nreturn %5 as y, %3 as before\n",
                                 "%5: float32[6, 5] = unary %2 function=tanh  # later\n%6: float32[6, 5] = binary %5, %4 function=add  # add\nreturn %6 as y, %3 as kept\n"}) {
    EXPECT_EQ(with_sums(kAddends + kOneProduct + rest), kAddends + kOneProduct + rest);
  }
  const std::string low = rounded(kAddends + kOneProduct + "%5: float32[6, 5] = binary %3, %4 function=add  # add\nreturn %5 as y\n");
  EXPECT_EQ(with_sums(low), low);
}

// A product accumulates into one addend, and the next addition stays an op of its own.
TEST(FuseSums, TakesOneOfSeveral) {
  EXPECT_EQ(with_sums(kAddends + "%4: float32[6, 5] = unary %2 function=tanh  # tanh\n%5: float32[6, 5] = einsum %0, %1 equation=\"am,mb->ab\"  # product\n"
                          "%6: float32[6, 5] = binary %3, %5 function=add  # add\n%7: float32[6, 5] = binary %4, %6 function=add  # add\nreturn %7 as y\n"),
            kAddends + "%4: float32[6, 5] = unary %2 function=tanh  # tanh\n%5: float32[6, 5] = einsum %0, %1, %3 equation=\"am,mb->ab\"  # product\n"
                      "%6: float32[6, 5] = binary %4, %5 function=add  # add\nreturn %6 as y\n");
}

// The gradient of a norm only reads the value that it adds to, so this may be of any type and may be read later too.
TEST(FuseSums, ANormsGradientTakesWhatIsReadLaterToo) {
  const std::string inputs =
      "%0: bfloat16[6, 4] = input labels=(-, -)  # x\n"
      "%1: bfloat16[4] = input labels=(-)  # scale\n"
      "%2: bfloat16[6, 4] = input labels=(-, -)  # dy\n";
  EXPECT_EQ(with_sums(inputs + "%3: bfloat16[6, 4], %4: bfloat16[4] = rms_norm_grad %0, %1, %2 epsilon=0.5  # norm\n"
                           "%5: bfloat16[6, 4] = binary %3, %2 function=add  # add\nreturn %5 as y, %4 as dscale, %2 as dy\n"),
            inputs + "%3: bfloat16[6, 4], %4: bfloat16[4] = rms_norm_grad %0, %1, %2, %2 epsilon=0.5  # norm\nreturn %3 as y, %4 as dscale, %2 as dy\n");
}

// Additions are fused in the bodies of layers too.
TEST(FuseSums, LeavesNoSumOfGradientsInALayer) {
  const test::Training training(test::kTinyMixtral + std::string("dtype=float32"));
  std::vector<std::string> left;
  for (const plan::Instruction& of : training.trainer.plan().instructions) {
    const auto* binary = std::get_if<graph::BinaryOf>(&of.attributes);
    if (of.path.find('\'') != std::string::npos && binary != nullptr && binary->function == graph::Binary::add) left.push_back(of.path);
  }
  EXPECT_THAT(left, testing::IsEmpty());
}

}  // namespace
}  // namespace moesh::partition
