// Tests of graph rewrites, as short graphs before and after.
#include "graph/rewrite.h"

#include <gtest/gtest.h>

#include "graph/autodiff.h"
#include "graph/parse.h"
#include "graph/print.h"
#include "graph/slots.h"

namespace moesh::graph {
namespace {

template <typename Pass>
std::string after(const std::string& text, const Pass& pass) {
  return to_text(pass(parse_graph(text).graph));
}

TEST(Rewrite, KnowsWhoUsesAValue) {
  const Graph graph = parse_graph(
                          "%0: float32[4] = input labels=(-)  # x\n"
                          "%1: float32[4] = binary %0, %0 function=add  # twice\n"
                          "%2: float32[4] = unary %0 function=silu  # dead\n"
                          "%3: float32[4] = binary %1, %0 function=multiply  # y\n"
                          "return %3 as y, %0 as x\n")
                          .graph;
  const std::vector<std::vector<NodeId>> users = users_of(graph);
  const std::vector<std::vector<NodeId>> expected{{1, 1, 2, 3, 4}, {3}, {}, {4}};
  EXPECT_EQ(users, expected);
  for (ValueId id = 0; id < 4; ++id) EXPECT_EQ(use_counts(graph)[static_cast<std::size_t>(id)], std::ssize(users[static_cast<std::size_t>(id)]));
}

// Inputs and parameters stay, because they are what a program is given.
TEST(Rewrite, LeavesNodesAwayThatNobodyNeeds) {
  EXPECT_EQ(after("%0: float32[4] = input labels=(-)  # x\n"
                  "%1: float32[4] = parameter labels=(-)  # w\n"
                  "%2: float32[4] = unary %0 function=silu  # used\n"
                  "%3: float32[4] = unary %1 function=silu  # dead\n"
                  "%4: float32[4] = unary %3 function=relu  # dead/too\n"
                  "return %2 as y\n",
                  without_dead_nodes),
            "%0: float32[4] = input labels=(-)  # x\n"
            "%1: float32[4] = parameter labels=(-)  # w\n"
            "%2: float32[4] = unary %0 function=silu  # used\n"
            "return %2 as y\n");
}

// Inlines blocks within blocks, and within the bodies of loops.
TEST(Rewrite, PutsTheNodesOfBlocksInTheirPlace) {
  EXPECT_EQ(after("%0: float32[2] = input labels=(-)  # x\n"
                  "%1: float32[2] = parameter labels=(-)  # layers_0/w\n"
                  "%2: float32[2], %3: float32[2] = repeat %0, %1 sizes=[] labels=() carried=1 slices=[0] stacks=[0]  # layers_0\n"
                  "  %0: float32[2] = input labels=(-)  # layers_0/carried\n"
                  "  %1: float32[2] = input labels=(-)  # layers_0/w\n"
                  "  %2: float32[2] = binary %0, %1 function=add  # layers_0/sum\n"
                  "  %3: float32[2] = repeat %2 sizes=[] labels=() carried=1  # layers_0/inner\n"
                  "    %0: float32[2] = input labels=(-)  # layers_0/inner/carried\n"
                  "    %1: float32[2] = unary %0 function=relu  # layers_0/inner/y\n"
                  "    return %1\n"
                  "  return %3, %2\n"
                  "%4: float32[2] = repeat %2 sizes=[3] labels=(-) carried=1  # loop\n"
                  "  %0: float32[2] = input labels=(-)  # loop/carried\n"
                  "  %1: float32[2] = repeat %0 sizes=[] labels=() carried=1  # loop/block\n"
                  "    %0: float32[2] = input labels=(-)  # loop/block/carried\n"
                  "    return %0\n"
                  "  %2: float32[2] = unary %1 function=silu  # loop/y\n"
                  "  return %2\n"
                  "return %4 as y, %3 as s\n",
                  with_blocks_inlined),
            "%0: float32[2] = input labels=(-)  # x\n"
            "%1: float32[2] = parameter labels=(-)  # layers_0/w\n"
            "%2: float32[2] = binary %0, %1 function=add  # layers_0/sum\n"
            "%3: float32[2] = unary %2 function=relu  # layers_0/inner/y\n"
            "%4: float32[2] = repeat %3 sizes=[3] labels=(-) carried=1  # loop\n"
            "  %0: float32[2] = input labels=(-)  # loop/carried\n"
            "  %1: float32[2] = unary %0 function=silu  # loop/y\n"
            "  return %1\n"
            "return %4 as y, %2 as s\n");
}

// Carried values stay, as the next iteration reads them.
TEST(Rewrite, LeavesStacksAwayThatNobodyReads) {
  EXPECT_EQ(after("%0: float32[2] = input labels=(-)  # x\n"
                  "%1: float32[3, 2] = input labels=(-, -)  # a\n"
                  "%2: float32[3, 2] = input labels=(-, -)  # b\n"
                  "%3: float32[2], %4: float32[3, 2], %5: float32[3, 2] = repeat %0, %1, %2 sizes=[3] labels=(-) carried=1 slices=[0, 0] "
                  "stacks=[0, 0]  # layers\n"
                  "  %0: float32[2] = input labels=(-)  # layers/carried\n"
                  "  %1: float32[2] = input labels=(-)  # layers/a\n"
                  "  %2: float32[2] = input labels=(-)  # layers/b\n"
                  "  %3: float32[2] = unary %0 function=silu  # layers/next\n"
                  "  %4: float32[2] = unary %1 function=relu  # layers/dead\n"
                  "  %5: float32[2] = unary %2 function=relu  # layers/used\n"
                  "  return %3, %4, %5\n"
                  "return %5\n",
                  without_dead_results),
            "%0: float32[2] = input labels=(-)  # x\n"
            "%1: float32[3, 2] = input labels=(-, -)  # a\n"
            "%2: float32[3, 2] = input labels=(-, -)  # b\n"
            "%3: float32[2], %4: float32[3, 2] = repeat %0, %2 sizes=[3] labels=(-) carried=1 slices=[0] stacks=[0]  # layers\n"
            "  %0: float32[2] = input labels=(-)  # layers/carried\n"
            "  %1: float32[2] = input labels=(-)  # layers/b\n"
            "  %2: float32[2] = unary %0 function=silu  # layers/next\n"
            "  %3: float32[2] = unary %1 function=relu  # layers/used\n"
            "  return %2, %3\n"
            "return %4\n");
}

// The value that is carried in stays too, even if no iteration reads it.
TEST(Rewrite, KeepsACarriedValueThatIsOnlyReplaced) {
  const std::string text =
      "%0: float32[2] = input labels=(-)  # x\n"
      "%1: float32[3, 2] = input labels=(-, -)  # a\n"
      "%2: float32[2] = repeat %0, %1 sizes=[3] labels=(-) carried=1 slices=[0]  # layers\n"
      "  %0: float32[2] = input labels=(-)  # layers/carried\n"
      "  %1: float32[2] = input labels=(-)  # layers/a\n"
      "  %2: float32[2] = unary %1 function=silu  # layers/next\n"
      "  return %2\n"
      "return %2\n";
  EXPECT_EQ(after(text, without_dead_results), text);
}

TEST(Rewrite, ReadsWhatStandsBehindAllConstraints) {
  EXPECT_EQ(after("%0: float32[4] = input labels=(-)  # x\n"
                  "%1: float32[4] = constraint %0 labels=(a)  # laid\n"
                  "%2: float32[4] = constraint %1 labels=(b)  # laid/again\n"
                  "%3: float32[4] = unary %2 function=silu  # y\n"
                  "return %3, %2\n",
                  without_constraints),
            "%0: float32[4] = input labels=(-)  # x\n"
            "%1: float32[4] = unary %0 function=silu  # y\n"
            "return %1, %0\n");
}

TEST(Rewrite, MovesNodesToJustBeforeWhatNeedsThem) {
  EXPECT_EQ(after("%0: float32[4] = input labels=(-)  # x\n"
                  "%1: float32[4] = unary %0 function=silu  # early\n"
                  "%2: float32[4] = unary %1 function=relu  # early/too\n"
                  "%3: float32[4] = unary %0 function=sqrt  # first\n"
                  "%4: float32[4] = binary %3, %1 function=add  # second\n"
                  "%5: float32[4] = binary %4, %2 function=add  # third\n"
                  "return %5\n",
                  [](const Graph& graph) { return with_nodes_when_needed(graph, 3); }),
            "%0: float32[4] = input labels=(-)  # x\n"
            "%3: float32[4] = unary %0 function=sqrt  # first\n"
            "%1: float32[4] = unary %0 function=silu  # early\n"
            "%4: float32[4] = binary %3, %1 function=add  # second\n"
            "%2: float32[4] = unary %1 function=relu  # early/too\n"
            "%5: float32[4] = binary %4, %2 function=add  # third\n"
            "return %5\n");
}

// Tokens are copied into the slots as rows and copied back with weights. A constraint on the mask becomes a constraint on the slots.
TEST(SlotMasks, BecomeCopiesOfRows) {
  EXPECT_EQ(after("%0: bfloat16[2, 4, 8] = input labels=(batch, length, embed)  # x\n"
                  "%1: int32[2, 4, 2] = input labels=(batch, length, -)  # ids\n"
                  "%2: float32[2, 4, 2] = input labels=(batch, length, -)  # weights\n"
                  "%3: bfloat16[2, 4, 3, 5] = slot_mask %1 experts=3 capacity=5  # dispatch\n"
                  "%4: bfloat16[2, 4, 3, 5] = constraint %3 labels=(batch, length, exp, -)  # dispatch/laid\n"
                  "%5: bfloat16[2, 4, 3, 5] = slot_mask %1, %2 experts=3 capacity=5  # combine\n"
                  "%6: bfloat16[3, 2, 5, 8] = einsum %0, %4 equation=\"bsm,bsec->ebcm\"  # in\n"
                  "%7: bfloat16[2, 4, 8] = einsum %6, %5 equation=\"ebcm,bsec->bsm\"  # out\n"
                  "return %7 as y\n",
                  without_slot_masks),
            "%0: bfloat16[2, 4, 8] = input labels=(batch, length, embed)  # x\n"
            "%1: int32[2, 4, 2] = input labels=(batch, length, -)  # ids\n"
            "%2: float32[2, 4, 2] = input labels=(batch, length, -)  # weights\n"
            "%3: int32[2, 4, 2] = slots %1 experts=3 capacity=5  # dispatch\n"
            "%4: int32[2, 4, 2] = constraint %3 labels=(batch, length, -)  # dispatch/laid\n"
            "%5: bfloat16[2, 4, 2] = cast %2  # combine/cast\n"
            "%6: bfloat16[3, 2, 5, 8] = fill_slots %0, %4 experts=3 capacity=5  # in\n"
            "%7: bfloat16[2, 4, 8] = empty_slots %6, %3, %5 experts=3 capacity=5  # out\n"
            "return %7 as y\n");
}

// The input of a layer is always saved, and so are values with a tag that is asked for.
TEST(SavedValues, AreStackedBehindTheResults) {
  const auto saved = [](const Remat& remat) {
    return after(
        "%0: float32[4] = input labels=(-)  # x\n"
        "%1: float32[3, 4] = parameter labels=(layers, -)  # w\n"
        "%2: float32[4] = repeat %0, %1 sizes=[3] labels=(layers) carried=1 slices=[0]  # layers\n"
        "  %0: float32[4] = input labels=(-)  # x\n"
        "  %1: float32[4] = input labels=(-)  # w\n"
        "  %2: float32[4] = binary %0, %1 function=multiply tag mlpwi  # y\n"
        "  %3: float32[4] = unary %2 function=silu  # z\n"
        "  return %3\n"
        "return %2 as y\n",
        [&](const Graph& graph) { return with_saved_values(graph, remat); });
  };
  EXPECT_EQ(saved({false, {}}),
            "%0: float32[4] = input labels=(-)  # x\n"
            "%1: float32[3, 4] = parameter labels=(layers, -)  # w\n"
            "%2: float32[4], %3: float32[3, 4] = repeat %0, %1 sizes=[3] labels=(layers) carried=1 slices=[0] stacks=[0] "
            "saved=[0]  # layers\n"
            "  %0: float32[4] = input labels=(-)  # x\n"
            "  %1: float32[4] = input labels=(-)  # w\n"
            "  %2: float32[4] = binary %0, %1 function=multiply tag mlpwi  # y\n"
            "  %3: float32[4] = unary %2 function=silu  # z\n"
            "  return %3, %0\n"
            "return %2 as y\n");
  EXPECT_NE(saved({false, {"mlpwi"}}).find(" saved=[0, 2]  # layers"), std::string::npos);
}

}  // namespace
}  // namespace moesh::graph
