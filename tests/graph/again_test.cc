// Tests which values the backward pass recomputes for itself.
#include "graph/again.h"

#include <gtest/gtest.h>

#include "graph/parse.h"
#include "graph/print.h"

namespace moesh::graph {
namespace {

std::string done_again(const std::string& text, std::size_t end) { return to_text(with_cheap_nodes_again(parse_graph(text).graph, end)); }

// The product `down` needs the gate's activation and its product with `up`, so both would be held from there to the backward pass, which
// begins with node 9.
TEST(Again, GivesTheBackwardPassResultsOfItsOwn) {
  const std::string before =
      "%0: float32[4, 4] = input labels=(-, -)  # x\n"
      "%1: float32[4, 4] = input labels=(-, -)  # w\n"
      "%2: float32[4, 4] = input labels=(-, -)  # dy\n"
      "%3: float32[4, 4] = einsum %0, %1 equation=\"ab,bc->ac\"  # gate\n"
      "%4: float32[4, 4] = einsum %0, %1 equation=\"ab,bc->ac\"  # up\n"
      "%5: float32[4, 4] = unary %3 function=silu  # silu\n"
      "%6: float32[4, 4] = binary %5, %4 function=multiply  # multiply\n"
      "%7: float32[4, 4] = constraint %6 labels=(-, -)  # laid\n"
      "%8: float32[4, 4] = einsum %7, %1 equation=\"ab,bc->ac\"  # down\n";
  EXPECT_EQ(done_again(before +
                      "%9: float32[4, 4] = einsum %8, %2 equation=\"ab,ac->bc\"  # down's next\n"
                      "%10: float32[4, 4] = einsum %7, %2 equation=\"ab,ac->bc\"  # dw\n"
                      "%11: float32[4, 4] = binary %2, %5 function=multiply  # dup\n"
                      "%12: float32[4, 4] = binary %2, %4 function=multiply  # dsilu\n"
                      "%13: float32[4, 4] = unary_grad %3, %12 function=silu  # dgate\n"
                      "return %9, %10, %11, %13\n",
                  9),
            before +
                "%9: float32[4, 4] = einsum %8, %2 equation=\"ab,ac->bc\"  # down's next\n"
                "%14: float32[4, 4] = unary %3 function=silu  # silu\n"
                "%15: float32[4, 4] = binary %14, %4 function=multiply  # multiply\n"
                "%16: float32[4, 4] = constraint %15 labels=(-, -)  # laid\n"
                "%10: float32[4, 4] = einsum %16, %2 equation=\"ab,ac->bc\"  # dw\n"
                "%11: float32[4, 4] = binary %2, %14 function=multiply  # dup\n"
                "%12: float32[4, 4] = binary %2, %4 function=multiply  # dsilu\n"
                "%13: float32[4, 4] = unary_grad %3, %12 function=silu  # dgate\n"
                "return %9, %10, %11, %13\n");
}

// A value stays as it is if no matrix product of the forward pass follows it, because it is not held for long then. It also stays if its
// operand would have to be held in its place.
TEST(Again, LeavesAloneWhatSavesNothing) {
  const std::string last =
      "%0: float32[4, 4] = input labels=(-, -)  # x\n"
      "%1: float32[4, 4] = input labels=(-, -)  # dy\n"
      "%2: float32[4, 4] = einsum %0, %0 equation=\"ab,bc->ac\"  # gate\n"
      "%3: float32[4, 4] = unary %2 function=silu  # silu\n"
      "%4: float32[4, 4] = einsum %3, %1 equation=\"ab,ac->bc\"  # dw\n"
      "%5: float32[4, 4] = unary_grad %2, %1 function=silu  # dgate\n"
      "return %4, %5\n";
  EXPECT_EQ(done_again(last, 4), last);
  const std::string alone =
      "%0: float32[4, 4] = input labels=(-, -)  # x\n"
      "%1: float32[4, 4] = input labels=(-, -)  # dy\n"
      "%2: float32[4, 4] = einsum %0, %0 equation=\"ab,bc->ac\"  # query\n"
      "%3: float32[4, 4] = unary %2 function=scale a=0.5  # scale\n"
      "%4: float32[4, 4] = einsum %3, %0 equation=\"ab,bc->ac\"  # out\n"
      "%5: float32[4, 4] = einsum %3, %1 equation=\"ab,ac->bc\"  # dw\n"
      "%6: float32[4, 4] = einsum %4, %1 equation=\"ab,ac->bc\"  # dnext\n"
      "return %5, %6\n";
  EXPECT_EQ(done_again(alone, 5), alone);
}

// If all is saved: the first input is carried from layer to layer and saved, the second one is given again, as weights are.
TEST(Again, LeavesOutOfAllThatIsSavedWhatReadsNoMore) {
  const ParsedGraph body = parse_graph(
      "%0: bfloat16[4, 4] = input labels=(-, -)  # x\n"
      "%1: bfloat16[4, 4] = input labels=(-, -)  # w\n"
      "%2: bfloat16[4, 4] = einsum %0, %1 equation=\"ab,bc->ac\"  # product\n"
      "%3: bfloat16[4, 4] = transpose %1 order=[1, 0]  # of weights\n"
      "%4: bfloat16[4, 4] = binary %2, %0 function=add  # sum\n"
      "%5: bfloat16[4, 4] = binary %2, %0 function=subtract  # difference\n"
      "%6: bfloat16[4, 4] = binary %2, %0 function=multiply  # gated\n"
      "%7: float32[4, 4] = cast %4  # wide\n"
      "%8: bfloat16[4, 4] = cast %7  # narrow\n"
      "%9: bfloat16[4, 4] = transpose %4 order=[1, 0]  # of a sum\n"
      "return %8\n");
  EXPECT_EQ(made_again(body.graph, 1), (std::vector<bool>{false, true, false, true, false, false, true, true, false, false}));
}

}  // namespace
}  // namespace moesh::graph
