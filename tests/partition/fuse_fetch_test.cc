// Tests which cotangents of experts' rows are fetched by the op that reads them.
#include "partition/fuse_fetch.h"

#include <gtest/gtest.h>

#include "graph/parse.h"
#include "graph/print.h"
#include "tests/support.h"
#include "tests/train/trainer_support.h"

namespace moesh::partition {
namespace {

std::string with_fetches(const std::string& text) { return graph::to_text(with_fetches_fused(graph::parse_graph(text).graph)); }

const std::string kInputs =
    "%0: float32[12, 6] = input labels=(-, -)  # rows\n"
    "%1: float32[12] = input labels=(-)  # weights\n"
    "%2: float32[8, 6] = input labels=(-, -)  # dy\n"
    "%3: int32[12] = input labels=(-)  # order\n"
    "%4: int32[4] = input labels=(-)  # sizes\n";
const std::string kFetch = "%5: float32[12, 6] = fetch_rows %2, %3, %4 choices=2  # fetch\n";
const std::string kGrad = "%6: float32[12, 6], %7: float32[12] = weighted_rows_grad %0, %1, %5 phase backward  # return'\n";

TEST(FuseFetch, ReadsTheTokensCotangents) {
  EXPECT_EQ(with_fetches(kInputs + kFetch + kGrad + "return %6 as drows, %7 as dweights\n"),
            kInputs + "%5: float32[12, 6], %6: float32[12] = fetched_rows_grad %0, %1, %2, %3, %4 choices=2 phase backward  # return'\n"
                      "return %5 as drows, %6 as dweights\n");
}

// Rows that something else reads too, or that do not come from tokens, are read as they are.
TEST(FuseFetch, LeavesOtherRows) {
  for (const std::string& text : {kInputs + kFetch + kGrad + "%8: float32[12, 6] = unary %5 function=tanh  # tanh\n"
                                                             "return %6 as drows, %7 as dweights, %8 as y\n",
                                  kInputs + "%5: float32[12, 6] = unary %0 function=tanh  # made\n" + kGrad + "return %6 as drows, %7 as dweights\n"}) {
    EXPECT_EQ(with_fetches(text), text);
  }
}

// In the layers of a model, looped over or not, wherever the cotangents of the experts' rows come from tokens of the same device.
TEST(FuseFetch, IsDoneInsideOfLayers) {
  for (const std::string more : {"", "scan_layers=false", "ici_expert_parallelism=2 use_ring_of_experts=true compile_topology=cpu-2"}) {
    const test::Training training(test::kTinyMixtral + "num_experts=4 " + more);
    int fetched = 0;
    for (const plan::Instruction& of : training.trainer.plan().instructions) {
      fetched += of.op == graph::Op::fetched_rows_grad ? 1 : 0;
      EXPECT_NE(of.op, graph::Op::weighted_rows_grad) << of.path << " " << more;
    }
    EXPECT_GT(fetched, 0) << more;
  }
}

}  // namespace
}  // namespace moesh::partition
