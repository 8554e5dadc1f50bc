// Tests which sums of squares updates return as well, and which tables the gradients of embeddings are added to.
#include "partition/fuse_updates.h"

#include <gtest/gtest.h>

#include "graph/parse.h"
#include "graph/print.h"
#include "tests/support.h"
#include "tests/train/trainer_support.h"

namespace moesh::partition {
namespace {

std::string updated(const std::string& text) { return graph::to_text(with_updates_fused(graph::parse_graph(text).graph)); }

const std::string kTable =
    "%0: float32[9, 4] = input labels=(-, -)  # table\n"
    "%1: int32[2, 3] = input labels=(-, -) kind=batch  # tokens\n"
    "%2: float32[2, 3, 4] = input labels=(-, -, -)  # dy\n";

TEST(FuseUpdates, AddsAnEmbeddingsGradientToTheTableItMeets) {
  const std::string gradient = "%3: float32[9, 4] = embed_grad %1, %2  # embed\n";
  for (const std::string sum : {"%0, %3", "%3, %0"}) {
    EXPECT_EQ(updated(kTable + gradient + "%4: float32[9, 4] = binary " + sum + " function=add  # add\nreturn %4 as y\n"),
              kTable + "%3: float32[9, 4] = embed_add %0, %1, %2  # embed\nreturn %3 as y\n");
  }
  for (const std::string rest : {"%4: float32[9, 4] = binary %0, %3 function=multiply  # add\nreturn %4 as y\n",
                                 "%4: float32[9, 4] = binary %0, %3 function=add  # add\nreturn %4 as y, %3 as gradient\n",
                                 "%4: float32[9, 4] = binary %3, %3 function=add  # add\nreturn %4 as y\n"}) {
    EXPECT_EQ(updated(kTable + gradient + rest), kTable + gradient + rest);
  }
}

// The gradient of a tied embedding is added up over microbatches in a loop.
TEST(FuseUpdates, AddsAnEmbeddingsGradientInALoop) {
  const auto loop = [](const std::string& body) {
    return "%0: float32[9, 4] = input labels=(-, -)  # table\n"
           "%1: int32[2, 2, 3] = input labels=(-, -, -) kind=batch  # tokens\n"
           "%2: float32[2, 3, 4] = input labels=(-, -, -)  # dy\n"
           "%3: float32[9, 4] = repeat %0, %2, %1 sizes=[2] labels=(passes) carried=1 shared=1 slices=[0]  # passes\n"
           "  %0: float32[9, 4] = input labels=(-, -)  # carried\n"
           "  %1: float32[2, 3, 4] = input labels=(-, -, -)  # shared\n"
           "  %2: int32[2, 3] = input labels=(-, -)  # slice\n" +
           body + "return %3 as y\n";
  };
  EXPECT_EQ(updated(loop("  %3: float32[9, 4] = embed_grad %2, %1  # embed\n"
                         "  %4: float32[9, 4] = binary %0, %3 function=add  # add\n  return %4\n")),
            loop("  %3: float32[9, 4] = embed_add %0, %2, %1  # embed\n  return %3\n"));
}

TEST(FuseUpdates, HaveUpdatesGiveTheNorm) {
  const std::string inputs =
      "%0: float32[4] = input labels=(-) kind=batch  # numbers\n"
      "%1: float32[3, 4] = input labels=(-, -)  # p\n"
      "%2: float32[3, 4] = input labels=(-, -)  # g\n";
  EXPECT_EQ(updated(inputs + "%3: float32[3, 4], %4: float32[3, 4], %5: float32[3, 4] = adam_update %1, %2, %2, %2, %0  # adam\n"
                           "%6: float32[] = sum_squares %3  # new\n%7: float32[] = sum_squares %1  # old\n"
                           "%8: float32[] = sum_squares %4  # mu\nreturn %3 as p, %4 as mu, %5 as nu, %6 as s, %7 as t, %8 as u\n"),
            inputs + "%3: float32[3, 4], %4: float32[3, 4], %5: float32[3, 4], %6: float32[] = adam_update %1, %2, %2, %2, %0  # adam\n"
                     "%7: float32[] = sum_squares %1  # old\n"
                     "%8: float32[] = sum_squares %4  # mu\nreturn %3 as p, %4 as mu, %5 as nu, %6 as s, %7 as t, %8 as u\n");
}

TEST(FuseUpdates, LeavesNoPassOverNewParameters) {
  for (const std::string more : {"", "logits_via_embedding=true"}) {
    const test::Training training(test::kTinyMixtral + more);
    for (const plan::Instruction& of : training.trainer.plan().instructions) {
      EXPECT_FALSE(of.op == graph::Op::sum_squares && of.path.starts_with("parameters/")) << of.path;
    }
  }
}

// Only the experts' weights are checked. On a mesh, the norm of a small matrix is computed from the whole matrix, and not by its update.
TEST(FuseUpdates, HaveEachDeviceGiveTheNormOfItsShard) {
  const test::Training training(test::kTinyMixtral + "ici_fsdp_parallelism=2 compile_topology=cpu-2");
  int experts = 0;
  for (const plan::Instruction& of : training.trainer.plan().instructions) {
    if (of.op != graph::Op::adam_update || of.path.find("MoeBlock_0/w") == std::string::npos) continue;
    ++experts;
    EXPECT_EQ(of.results.size(), 4u) << of.path;
  }
  EXPECT_EQ(experts, 3);
}

}  // namespace
}  // namespace moesh::partition
