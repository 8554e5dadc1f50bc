// Tests which sums are made as soon as their terms are, and which stay where they are.
#include "partition/early_sums.h"

#include <gtest/gtest.h>

#include "advice/planned.h"
#include "graph/parse.h"
#include "graph/print.h"
#include "run/program.h"
#include "tests/support.h"

namespace moesh::partition {
namespace {

std::string with_sums_early(const std::string& text) { return graph::to_text(with_early_sums(graph::parse_graph(text).graph)); }

const std::string kSumAndSlices =
    "%0: float32[3, 2] = input labels=(-, -)  # sum\n"
    "%1: float32[3, 2] = input labels=(-, -)  # x\n"
    "%2: float32[2] = input labels=(-)  # y\n";

// A loop over three slices of x that stacks what it makes of them, at `position` of the stack.
std::string stacking(const std::string& position = "0", const std::string& shape = "[3, 2]") {
  return "%3: float32[2], %4: float32" + shape + " = repeat %2, %1 sizes=[3] labels=(layers) carried=1 slices=[0] stacks=[" + position +
         "] reverse=true phase backward  # layers\n"
         "  %0: float32[2] = input labels=(-) phase backward  # layers/carried\n"
         "  %1: float32[2] = input labels=(-) phase backward  # layers/x\n"
         "  %2: float32[2] = binary %0, %1 function=multiply phase backward  # layers/y\n"
         "  return %2, %2\n";
}

const std::string kSumOfStack = "%5: float32[3, 2] = binary %0, %4 function=add phase backward  # w/add\n";

TEST(EarlySums, AreMadeByTheLoopThatStacksTheirTerm) {
  const std::string expected =
      kSumAndSlices +
      "%3: float32[2], %4: float32[3, 2] = repeat %2, %1, %0 sizes=[3] labels=(layers) carried=1 slices=[0, 0] stacks=[0] reverse=true "
      "phase backward  # layers\n"
      "  %0: float32[2] = input labels=(-) phase backward  # layers/carried\n"
      "  %1: float32[2] = input labels=(-) phase backward  # layers/x\n"
      "  %2: float32[2] = input labels=(-) phase backward  # w/add\n"
      "  %3: float32[2] = binary %0, %1 function=multiply phase backward  # layers/y\n"
      "  %4: float32[2] = binary %2, %3 function=add phase backward  # w/add\n"
      "  return %3, %4\n"
      "return %3 as y, %4 as sum\n";
  EXPECT_EQ(with_sums_early(kSumAndSlices + stacking() + kSumOfStack + "return %3 as y, %5 as sum\n"), expected);
  const std::string turned = "%5: float32[3, 2] = binary %4, %0 function=add phase backward  # w/add\n";
  EXPECT_EQ(with_sums_early(kSumAndSlices + stacking() + turned + "return %3 as y, %5 as sum\n"), expected);
}

// With weights in bfloat16, gradients are stacked so, and cast before they are added up.
TEST(EarlySums, TakeTheCastOfTheirTermIntoTheLoop) {
  const std::string inputs =
      "%0: float32[3, 2] = input labels=(-, -)  # sum\n"
      "%1: bfloat16[3, 2] = input labels=(-, -)  # x\n";
  const std::string cast = "%3: float32[3, 2] = cast %2 phase backward  # wide\n";
  const std::string sum = "%4: float32[3, 2] = binary %0, %3 function=add phase backward  # w/add\n";
  const std::string stacking =
      "%2: bfloat16[3, 2] = repeat %1 sizes=[3] labels=(layers) slices=[0] stacks=[0] phase backward  # layers\n"
      "  %0: bfloat16[2] = input labels=(-) phase backward  # layers/x\n"
      "  %1: bfloat16[2] = unary %0 function=silu phase backward  # layers/y\n"
      "  return %1\n";
  EXPECT_EQ(with_sums_early(inputs + stacking + cast + sum + "return %4 as sum\n"),
            inputs +
                "%2: float32[3, 2] = repeat %1, %0 sizes=[3] labels=(layers) slices=[0, 0] stacks=[0] phase backward  # layers\n"
                "  %0: bfloat16[2] = input labels=(-) phase backward  # layers/x\n"
                "  %1: float32[2] = input labels=(-) phase backward  # w/add\n"
                "  %2: bfloat16[2] = unary %0 function=silu phase backward  # layers/y\n"
                "  %3: float32[2] = cast %2 phase backward  # w/add\n"
                "  %4: float32[2] = binary %1, %3 function=add phase backward  # w/add\n"
                "  return %4\n"
                "return %2 as sum\n");
  for (const std::string also : {"%2", "%3"}) {
    const std::string text = inputs + stacking + cast + sum + "return %4 as sum, " + also + " as stack\n";
    EXPECT_EQ(with_sums_early(text), text);
  }
}

TEST(EarlySums, StayWhereTheyAreIfSomethingElseReadsATerm) {
  for (const std::string& rest : std::vector<std::string>{
           kSumOfStack + "return %5 as sum, %4 as stack\n", kSumOfStack + "return %5 as sum, %0 as before\n",
                                 "%5: float32[3, 2] = binary %4, %4 function=add phase backward  # twice\nreturn %5 as sum, %0 as before\n",
                                 "%5: float32[3, 2] = binary %0, %4 function=multiply phase backward  # times\nreturn %5 as product\n"}) {
    EXPECT_EQ(with_sums_early(kSumAndSlices + stacking() + rest), kSumAndSlices + stacking() + rest);
  }
}

// A stack whose layers do not come first has no dense slices.
TEST(EarlySums, StayWhereTheyAreIfLayersAreNotFirst) {
  const std::string wide =
      "%0: float32[2, 3] = input labels=(-, -)  # sum\n"
      "%1: float32[3, 2] = input labels=(-, -)  # x\n"
      "%2: float32[2] = input labels=(-)  # y\n" +
      stacking("1", "[2, 3]") + "%5: float32[2, 3] = binary %0, %4 function=add phase backward  # w/add\nreturn %3 as y, %5 as sum\n";
  EXPECT_EQ(with_sums_early(wide), wide);
}

const std::string kTwoSums =
    "%0: float32[4] = input labels=(-)  # sum\n"
    "%1: float32[4] = input labels=(-)  # other sum\n"
    "%2: float32[4] = input labels=(-)  # x\n";

TEST(EarlySums, StandRightBehindTheirTerm) {
  EXPECT_EQ(with_sums_early(kTwoSums +
                      "%3: float32[4] = unary %2 function=silu phase backward  # one\n"
                      "%4: float32[4] = unary %2 function=tanh phase backward  # two\n"
                      "%5: float32[4] = binary %0, %3 function=add phase backward  # sum of one\n"
                      "%6: float32[4] = binary %1, %4 function=add phase backward  # sum of two\n"
                      "return %5 as a, %6 as b\n"),
            kTwoSums +
                "%3: float32[4] = unary %2 function=silu phase backward  # one\n"
                "%4: float32[4] = binary %0, %3 function=add phase backward  # sum of one\n"
                "%5: float32[4] = unary %2 function=tanh phase backward  # two\n"
                "%6: float32[4] = binary %1, %5 function=add phase backward  # sum of two\n"
                "return %4 as a, %6 as b\n");
}

TEST(EarlySums, DoNotWaitForACollective) {
  const std::string inputs =
      "mesh {data=2}\n"
      "%0: float32[4] as [-] = input labels=(-)  # sum\n"
      "%1: float32[4] as [-]+sum(data) = input labels=(-)  # x\n"
      "%2: float32[4] as [-] = input labels=(-)  # y\n";
  const std::string rest =
      "%4: bfloat16[4] as [-] = cast %3 phase backward  # narrow\n"
      "%5: float32[4] as [-] = cast %4 phase backward  # wide\n"
      "%6: float32[4] as [-] = unary %2 function=silu phase backward  # meanwhile\n"
      "%7: float32[4] as [-] = binary %0, %5 function=add phase backward  # sum\n"
      "return %7 as sum, %6 as y\n";
  const auto last_op = [&](const std::string& term) {
    return with_early_sums(graph::parse_graph(inputs + "%3: float32[4] as [-] = " + term + rest).graph).nodes.back().op;
  };
  EXPECT_EQ(last_op("reshard %1 kind=all-reduce axes=(data) phase backward  # sent\n"), graph::Op::binary);
  EXPECT_EQ(last_op("unary %2 function=tanh phase backward  # made here\n"), graph::Op::unary);
}

// The sums have the same bits wherever they are made.
TEST(EarlySums, HaveTheBitsThatTheyHadBefore) {
  const std::string text = kSumAndSlices + stacking() + kSumOfStack + "return %3 as y, %5 as sum\n";
  const graph::Graph graph = graph::parse_graph(text).graph;
  backend::Workers workers(1);
  const auto pool = run::Pool::create();
  std::vector<run::Array> feeds;
  for (const Shape& shape : {Shape{3, 2}, Shape{3, 2}, Shape{2}}) {
    feeds.push_back(pool->allocate(shape, DType::float32));
    for (std::int64_t i = 0; i < feeds.back().view.count(); ++i) feeds.back().as<float>()[i] = 0.1f * static_cast<float>(i + 1);
  }
  const std::vector<run::Array> before = run::evaluate(graph, feeds, workers), after = run::evaluate(with_early_sums(graph), feeds, workers);
  ASSERT_EQ(before.size(), after.size());
  for (std::size_t i = 0; i < before.size(); ++i) {
    for (std::int64_t k = 0; k < before[i].view.count(); ++k) EXPECT_EQ(before[i].as<float>()[k], after[i].as<float>()[k]);
  }
}

// With several microbatches a device holds one gradient of each layer's weights, as with one.
TEST(EarlySums, LeaveOneGradientOfEachWeight) {
  for (const std::string layout : {"ici_fsdp_parallelism=8", "ici_data_parallelism=8 ici_fsdp_parallelism=1",
                                   "ici_fsdp_parallelism=8 weight_dtype=bfloat16"}) {
    const auto planned = [&](const std::string& passes) {
      return advice::plan_step(test::words_of("model_name=llama2-7b compile_topology=v5p-16 per_device_batch_size=1 " + layout +
                                              " gradient_accumulation_steps=" + passes))
          .step.forecast;
    };
    const forecast::Forecast one = planned("1"), four = planned("4");
    // Sums are in float32, where gradients of one pass may be in bfloat16.
    const std::int64_t wider = layout.ends_with("bfloat16") ? four.unheld.gradients : 0;
    EXPECT_LT(four.memory.peak - one.memory.peak - wider, four.unheld.gradients / 8) << layout;
  }
}

}  // namespace
}  // namespace moesh::partition
