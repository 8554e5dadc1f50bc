// Tests which gradients stay in bfloat16, and that a step that reads them so has the same bits.
#include "partition/narrow_gradients.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "advice/planned.h"
#include "graph/parse.h"
#include "graph/print.h"
#include "tests/support.h"

namespace moesh::partition {
namespace {

std::string narrowed(const std::string& text) { return graph::to_text(with_narrow_gradients(graph::parse_graph(text).graph)); }

const std::string kOfUpdate =
    "%0: float32[4] = input labels=(-) kind=batch  # numbers\n"
    "%1: float32[3, 4] = input labels=(-, -)  # p\n"
    "%2: bfloat16[3, 4] = input labels=(-, -)  # g\n";
const std::string kWidened = "%3: float32[3, 4] = cast %2 phase backward  # cast\n";

TEST(NarrowGradients, AreNotCastForUpdatesAndNorms) {
  EXPECT_EQ(narrowed(kOfUpdate + kWidened +
                     "%4: float32[] = sum_squares %3  # squares\n"
                     "%5: float32[3, 4] = sgd_update %1, %3, %0  # sgd\n"
                     "%6: float32[3, 4], %7: float32[3, 4], %8: float32[3, 4] = adam_update %5, %3, %1, %1, %0  # adam\n"
                     "return %4 as s, %6 as p, %7 as mu, %8 as nu\n"),
            kOfUpdate +
                "%3: float32[] = sum_squares %2  # squares\n"
                "%4: float32[3, 4] = sgd_update %1, %2, %0  # sgd\n"
                "%5: float32[3, 4], %6: float32[3, 4], %7: float32[3, 4] = adam_update %4, %2, %1, %1, %0  # adam\n"
                "return %3 as s, %5 as p, %6 as mu, %7 as nu\n");
}

TEST(NarrowGradients, AreCastForAllElse) {
  for (const std::string rest :
       {"%4: float32[] = sum_squares %3  # squares\nreturn %4 as s, %3 as g\n",
        "%4: float32[3, 4] = binary %3, %1 function=add  # add\nreturn %4 as y\n",
        "%4: float32[3, 4] = sgd_update %3, %3, %0  # sgd\nreturn %4 as p\n",
        "%4: float32[3, 4], %5: float32[3, 4] = momentum_update %3, %1, %0  # momentum\nreturn %4 as mu, %5 as d\n"}) {
    EXPECT_EQ(narrowed(kOfUpdate + kWidened + rest), kOfUpdate + kWidened + rest);
  }
}

std::string stacked(int iterations, const std::string& dtype, const std::string& body, const std::string& rest) {
  const std::string size = std::to_string(iterations);
  return "%0: bfloat16[2] = input labels=(-)  # x\n%1: bfloat16[2], %2: " + dtype + "[" + size + ", 2] = repeat %0 sizes=[" + size +
         "] labels=(-) carried=1 stacks=[0]  # layers\n"
         "  %0: bfloat16[2] = input labels=(-)  # layers/carried\n"
         "  %1: bfloat16[2] = unary %0 function=silu  # layers/y\n" +
         body + rest;
}

TEST(NarrowGradients, StackAsTheyAreInLoopsThatRunOnce) {
  const std::string cast = "  %2: float32[2] = cast %1  # layers/cast\n  return %1, %2\n", plain = "  return %1, %1\n";
  const std::string norm = "%3: float32[] = sum_squares %2  # squares\nreturn %3 as s";
  EXPECT_EQ(narrowed(stacked(1, "float32", cast, norm + "\n")), stacked(1, "bfloat16", plain, norm + "\n"));
  for (const std::string& other : {stacked(1, "float32", cast, norm + ", %2 as g\n"), stacked(5, "float32", cast, norm + "\n")}) {
    EXPECT_EQ(narrowed(other), other);
  }
}

// On chips, gradients are summed over devices in bfloat16, and layers that are not scanned have gradients of their own.
TEST(NarrowGradients, ReachTheUpdatesOfLayersThatAreNotScanned) {
  const auto narrow_updates = [](const std::string& scan) {
    const advice::Planned planned =
        advice::plan_step(test::words_of("model_name=llama2-7b compile_topology=v5p-8 ici_fsdp_parallelism=4 base_num_decoder_layers=2 "
                                         "override_model_config=true scan_layers=" +
                                         scan));
    const plan::Plan& plan = planned.step.program.plan;
    return std::count_if(plan.instructions.begin(), plan.instructions.end(), [&](const plan::Instruction& of) {
      return of.op == graph::Op::adam_update && plan.view(of.operands[1]).dtype == DType::bfloat16;
    });
  };
  EXPECT_EQ(narrow_updates("false"), 2 * 9 + 2) << "of all but the embedding, which sums in float32";
  EXPECT_EQ(narrow_updates("true"), 2) << "of the last norm and the logits";
}

}  // namespace
}  // namespace moesh::partition
