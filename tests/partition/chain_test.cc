// Tests which elementwise ops are fused into one, and that nothing else changes.
#include "partition/chain.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backend/cpu/elementwise_avx512.h"
#include "base/text.h"
#include "graph/parse.h"
#include "graph/print.h"
#include "tests/support.h"
#include "tests/train/trainer_support.h"

namespace moesh::partition {
namespace {

std::string with_chains_in(const std::string& text) { return graph::to_text(with_chains(graph::parse_graph(text).graph)); }

const std::string kGate =
    "%0: bfloat16[64, 64] = input labels=(-, -)  # g\n"
    "%1: bfloat16[64, 64] = input labels=(-, -)  # u\n"
    "%2: bfloat16[64, 64] = input labels=(-, -)  # w\n";
const std::string kSwish = "%3: bfloat16[64, 64] = unary %0 function=silu  # silu\n";
const std::string kTimes = "%4: bfloat16[64, 64] = binary %3, %1 function=multiply  # multiply\n";

TEST(Chain, JoinsWhatFollowsEachOther) {
  EXPECT_EQ(with_chains_in(kGate + kSwish + kTimes + "return %4 as y\n"),
            kGate + "%3: bfloat16[64, 64] = chain %0, %1 steps=[{kind=unary dtype=bfloat16 operands=[0]}, "
                      "{kind=binary binary={function=multiply} dtype=bfloat16 operands=[2, 1]}]  # multiply\nreturn %3 as y\n");
}

TEST(Chain, ReadsAnOperandOnceThatSeveralStepsTake) {
  EXPECT_EQ(with_chains_in(kGate + kSwish + kTimes + "%5: bfloat16[64, 64] = unary_grad %0, %4 function=silu phase backward  # silu'\nreturn %5 as y\n"),
            kGate + "%3: bfloat16[64, 64] = chain %0, %1 steps=[{kind=unary dtype=bfloat16 operands=[0]}, "
                      "{kind=binary binary={function=multiply} dtype=bfloat16 operands=[2, 1]}, "
                      "{kind=unary_grad dtype=bfloat16 operands=[0, 3]}] phase backward  # silu'\nreturn %3 as y\n");
}

// The silu of a gate is needed for the product and for the product's gradient. It is computed twice, so that it is never held.
TEST(Chain, MakesTwiceWhatIsMadeOfOneValue) {
  const std::string made = with_chains_in(kGate + kSwish + kTimes + "%5: bfloat16[64, 64] = binary %2, %3 function=multiply  # other\nreturn %4 as y, %5 as z\n");
  EXPECT_THAT(made, testing::Not(testing::HasSubstr("unary %"))) << made;
  EXPECT_THAT(made, testing::HasSubstr("return %3 as y, %4 as z")) << made;
}

TEST(Chain, LeavesWhatSomebodyElseReads) {
  for (const std::string rest : {"return %4 as y, %3 as s\n",
                                 "%5: bfloat16[64, 64] = einsum %3, %2 equation=\"ab,bc->ac\"  # product\nreturn %4 as y, %5 as z\n"}) {
    EXPECT_EQ(with_chains_in(kGate + kSwish + kTimes + rest), kGate + kSwish + kTimes + rest);
  }
}

TEST(Chain, LeavesSmallValues) {
  std::string text = kGate + kSwish + kTimes + "return %4 as y\n";
  for (std::size_t place = text.find("[64, 64]"); place != std::string::npos; place = text.find("[64, 64]")) text.replace(place, 8, "[64, 8]");
  EXPECT_EQ(with_chains_in(text), text);
}

// A sum that is held until a product is done takes less memory than its two terms.
TEST(Chain, HoldsNoMoreThanBefore) {
  const std::string text = kGate +
      "%3: bfloat16[64, 64] = unary %0 function=silu  # a\n"
      "%4: bfloat16[64, 64] = einsum %0, %1 equation=\"ab,bc->ac\"  # b\n"
      "%5: bfloat16[64, 64] = einsum %4, %1 equation=\"ab,bc->ac\"  # c\n"
      "%6: bfloat16[64, 64] = binary %4, %5 function=add  # sum\n"
      "%7: bfloat16[64, 64] = einsum %2, %1 equation=\"ab,bc->ac\"  # d\n"
      "%8: bfloat16[64, 64] = binary %6, %7 function=add  # sum\nreturn %8 as y, %3 as z\n";
  EXPECT_EQ(with_chains_in(text), text);
}

// The product of silu(g) and u, and its two gradients, which compute silu(g) again. Joined, they read g, u and the cotangent once, and
// nothing else is held.
const std::string kGradients =
    "%0: bfloat16[64, 64] = input labels=(-, -)  # x\n"
    "%1: bfloat16[64, 64] = einsum %0, %0 equation=\"ab,bc->ac\"  # g\n"
    "%2: bfloat16[64, 64] = einsum %1, %0 equation=\"ab,bc->ac\"  # u\n"
    "%3: bfloat16[64, 64] = einsum %2, %0 equation=\"ab,bc->ac\"  # dy\n"
    "%4: bfloat16[64, 64] = unary %1 function=silu  # silu\n"
    "%5: bfloat16[64, 64] = binary %4, %2 function=multiply  # y\n"
    "%6: bfloat16[64, 64] = einsum %5, %0 equation=\"ab,bc->ac\"  # of y\n"
    "%7: bfloat16[64, 64] = unary %1 function=silu phase backward  # silu\n"
    "%8: bfloat16[64, 64] = binary %3, %7 function=multiply phase backward  # du\n"
    "%9: bfloat16[64, 64] = einsum %8, %0 equation=\"ab,bc->ac\"  # of du\n"
    "%10: bfloat16[64, 64] = binary %3, %2 function=multiply phase backward  # ds\n"
    "%11: bfloat16[64, 64] = unary_grad %1, %10 function=silu phase backward  # dg\n"
    "%12: bfloat16[64, 64] = einsum %11, %0 equation=\"ab,bc->ac\"  # of dg\n";

std::vector<std::string> chains_in(const std::string& text) {
  std::vector<std::string> lines;
  for (const std::string& line : split(with_chains_in(text), '\n')) {
    if (line.find(" = chain ") != std::string::npos) lines.emplace_back(trim(line));
  }
  return lines;
}

TEST(Chain, JoinsWhatReadsTheSame) {
  EXPECT_THAT(chains_in(kGradients + "return %6 as a, %9 as b, %12 as c\n"),
              testing::ElementsAre("%4: bfloat16[64, 64], %5: bfloat16[64, 64], %6: bfloat16[64, 64] = chain %1, %2, %3 "
                                   "steps=[{kind=unary dtype=bfloat16 operands=[0]}, "
                                   "{kind=binary binary={function=multiply} dtype=bfloat16 operands=[3, 1]}, "
                                   "{kind=binary binary={function=multiply} dtype=bfloat16 operands=[2, 3]}, "
                                   "{kind=binary binary={function=multiply} dtype=bfloat16 operands=[2, 1]}, "
                                   "{kind=unary_grad dtype=bfloat16 operands=[0, 6]}] results=[1, 2, 4] phase backward  # y"));
}

// If g and u are needed later, only the memory of dy becomes free, and a gradient takes it. The chain of the product joins no other.
TEST(Chain, JoinsNoMoreThanGiveWay) {
  const std::string later =
      "%13: bfloat16[64, 64] = einsum %1, %2 equation=\"ab,bc->ac\"  # later\n"
      "return %6 as a, %9 as b, %12 as c, %13 as d\n";
  const std::vector<std::string> chains = chains_in(kGradients + later);
  ASSERT_EQ(chains.size(), 2u);
  EXPECT_THAT(chains[0], testing::Not(testing::HasSubstr("results="))) << chains[0];
  EXPECT_THAT(chains[1], testing::HasSubstr("results=[1, 3]")) << chains[1];
}

// Two ops are not joined if the second one needs a cotangent that does not exist yet at the place of the first.
TEST(Chain, JoinsNothingThatIsNotThereYet) {
  const std::string text =
      "%0: bfloat16[64, 64] = input labels=(-, -)  # x\n"
      "%1: bfloat16[64, 64] = einsum %0, %0 equation=\"ab,bc->ac\"  # g\n"
      "%2: bfloat16[64, 64] = unary %1 function=silu  # s\n"
      "%3: bfloat16[64, 64] = einsum %2, %0 equation=\"ab,bc->ac\"  # dy\n"
      "%4: bfloat16[64, 64] = unary_grad %1, %3 function=silu phase backward  # dg\n"
      "return %4 as y\n";
  EXPECT_EQ(with_chains_in(text), text);
}

TEST(Chain, LeavesNumbersThatAreNotFloating) {
  const std::string text =
      "%0: int32[64, 64] = input labels=(-, -)  # n\n"
      "%1: float32[64, 64] = cast %0  # cast\n"
      "%2: float32[64, 64] = unary %1 function=scale a=2  # scale\nreturn %2 as y\n";
  EXPECT_EQ(with_chains_in(text), text);
}

// Chains are made in the layers of a model too, in bodies of repeats and of regions.
TEST(Chain, IsMadeInsideOfLayers) {
  for (const std::string more : {"", "scan_layers=false", "remat_policy=everything",
                                 "ici_expert_parallelism=2 compile_topology=cpu-2",
                                 "ici_expert_parallelism=2 use_ring_of_experts=true compile_topology=cpu-2",
                                 "sparse_matmul=false capacity_factor=1.25 ici_fsdp_parallelism=2 compile_topology=cpu-2"}) {
    const test::Training training(test::kTinyMixtral + "num_experts=4 base_mlp_dim=64 base_moe_mlp_dim=64 max_target_length=64 " + more);
    int chains = 0, joined = 0;  // joined: the gradients of a gate and of its factor, in one chain
    for (const plan::Instruction& of : training.trainer.plan().instructions) {
      chains += of.op == graph::Op::chain ? 1 : 0;
      joined += of.op == graph::Op::chain && of.results.size() > 1 ? 1 : 0;
#if defined(__x86_64__)
      const auto* chain = std::get_if<graph::ChainOf>(&of.attributes);
      EXPECT_TRUE(chain == nullptr || backend::cpu::is_compiled(*chain, of.operands.size())) << of.path << " " << more;
#endif
      EXPECT_FALSE(of.op == graph::Op::unary_grad && of.path.ends_with("silu'")) << of.path << " " << more;
    }
    EXPECT_GT(chains, 0) << more;
    EXPECT_GT(joined, 0) << more;
  }
}

}  // namespace
}  // namespace moesh::partition
