// Tests when the loss over a vocabulary becomes one op, and that training steps give the same losses with and without it.
#include "partition/fuse_loss.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "graph/parse.h"
#include "graph/print.h"
#include "tests/support.h"
#include "tests/train/trainer_support.h"

namespace moesh::partition {
namespace {

std::string fused(const std::string& text, bool makes_again = false) {
  return graph::to_text(with_loss_fused(graph::parse_graph(text).graph, makes_again));
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

const std::string kLossInputs =
    "%0: float32[2, 3, 4] = input labels=(-, -, -)  # x\n"
    "%1: float32[4, 5] = input labels=(-, -)  # table\n"
    "%2: int32[2, 3] = input labels=(-, -)  # targets\n"
    "%3: int32[2, 3] = input labels=(-, -)  # segments\n"
    "%4: float32[] = input  # dsum\n";
const std::string kLoss = kLossInputs +
    "%5: float32[2, 3, 5] = einsum %0, %1 equation=\"bsm,mv->bsv\"  # logits\n"
    "%6: float32[] = cross_entropy %5, %2, %3 z_loss=0.5  # loss\n"
    "%7: float32[] = unary %6 function=scale a=2  # twice\n"
    "%8: float32[2, 3, 5] = cross_entropy_grad %5, %2, %3, %4 z_loss=0.5 phase backward  # loss'\n"
    "%9: float32[2, 3, 4] = einsum %8, %1 equation=\"bsv,mv->bsm\" phase backward  # logits'\n"
    "%10: float32[4, 5] = einsum %0, %8 equation=\"bsm,bsv->mv\" phase backward  # logits'\n"
    "return %7 as loss, %9 as dx, %10 as dtable\n";

TEST(FuseLoss, MakesOneOpOfALossAndItsGradients) {
  EXPECT_EQ(fused(kLoss), kLossInputs +
                              "%5: float32[], %6: float32[2, 3, 4], %7: float32[4, 5] = vocab_loss %0, %1, %2, %3, %4 z_loss=0.5 phase backward  # loss'\n"
                              "%8: float32[] = unary %5 function=scale a=2  # twice\n"
                              "return %8 as loss, %6 as dx, %7 as dtable\n");
}

TEST(FuseLoss, MakesOneOpOfALossWithoutGradients) {
  const std::string roots = kLossInputs.substr(0, kLossInputs.find("%4"));
  EXPECT_EQ(fused(roots +
                  "%4: float32[2, 3, 5] = einsum %0, %1 equation=\"bsm,mv->bsv\"  # logits\n"
                  "%5: float32[] = cross_entropy %4, %2, %3 z_loss=0.5  # loss\n"
                  "return %5 as loss\n"),
            roots +
                "%4: float32[] = vocab_loss %0, %1, %2, %3 z_loss=0.5  # loss\n"
                "return %4 as loss\n");
}

// The part of the loss that the z-loss makes is a result of what takes the place of the loss.
TEST(FuseLoss, KeepsThePartOfTheZLoss) {
  std::string text = replaced(kLoss, "%6: float32[] = cross_entropy", "%6: float32[], %11: float32[] = cross_entropy");
  text = replaced(text, "return %7 as loss,", "return %11 as part, %7 as loss,");
  EXPECT_EQ(fused(text), kLossInputs +
                             "%5: float32[], %6: float32[2, 3, 4], %7: float32[4, 5], %8: float32[] = vocab_loss %0, %1, %2, %3, %4 z_loss=0.5 phase backward  # loss'\n"
                             "%9: float32[] = unary %5 function=scale a=2  # twice\n"
                             "return %8 as part, %9 as loss, %6 as dx, %7 as dtable\n");
}

TEST(FuseLoss, TakesATableByToken) {
  std::string text = replaced(kLoss, "%1: float32[4, 5]", "%1: float32[5, 4]");
  text = replaced(text, "bsm,mv->bsv", "bsm,vm->bsv");
  text = replaced(text, "bsv,mv->bsm", "bsv,vm->bsm");
  text = replaced(text, "%10: float32[4, 5] = einsum %0, %8 equation=\"bsm,bsv->mv\"", "%10: float32[5, 4] = einsum %8, %0 equation=\"bsv,bsm->vm\"");
  EXPECT_NE(fused(text).find("vocab_loss %0, %1, %2, %3, %4 z_loss=0.5 by_token=true"), std::string::npos) << fused(text);
}

// Logits that are scaled and capped between their product and the loss, as in Gemma.
const std::string kCappedLoss = kLossInputs +
    "%5: float32[2, 3, 5] = einsum %0, %1 equation=\"bsm,mv->bsv\"  # logits\n"
    "%6: float32[2, 3, 5] = unary %5 function=scale a=0.5  # scale\n"
    "%7: float32[2, 3, 5] = unary %6 function=scale a=0.25  # scale\n"
    "%8: float32[2, 3, 5] = unary %7 function=tanh  # tanh\n"
    "%9: float32[2, 3, 5] = unary %8 function=scale a=4  # scale\n"
    "%10: float32[] = cross_entropy %9, %2, %3 z_loss=0.5  # loss\n"
    "%11: float32[2, 3, 5] = cross_entropy_grad %9, %2, %3, %4 z_loss=0.5 phase backward  # loss'\n"
    "%12: float32[2, 3, 5] = unary %11 function=scale a=4 phase backward  # scale'\n"
    "%13: float32[2, 3, 5] = unary_grad %7, %12 function=tanh phase backward  # tanh'\n"
    "%14: float32[2, 3, 5] = unary %13 function=scale a=0.25 phase backward  # scale'\n"
    "%15: float32[2, 3, 5] = unary %14 function=scale a=0.5 phase backward  # scale'\n"
    "%16: float32[2, 3, 4] = einsum %15, %1 equation=\"bsv,mv->bsm\" phase backward  # logits'\n"
    "%17: float32[4, 5] = einsum %0, %15 equation=\"bsm,bsv->mv\" phase backward  # logits'\n"
    "return %10 as loss, %16 as dx, %17 as dtable\n";

TEST(FuseLoss, TakesWhatScalesAndCapsLogits) {
  EXPECT_EQ(fused(kCappedLoss), kLossInputs +
                                    "%5: float32[], %6: float32[2, 3, 4], %7: float32[4, 5] = vocab_loss %0, %1, %2, %3, %4 z_loss=0.5 scale=0.125 "
                                    "soft_cap=4 phase backward  # loss'\n"
                                    "return %5 as loss, %6 as dx, %7 as dtable\n");
  const std::string alone = kCappedLoss.substr(0, kCappedLoss.find("%11")) + "return %10 as loss\n";
  EXPECT_EQ(fused(alone).find("unary"), std::string::npos) << fused(alone);
  EXPECT_NE(fused(alone).find("scale=0.125 soft_cap=4"), std::string::npos) << fused(alone);
}

TEST(FuseLoss, LeavesALossIfAnythingOnTheWayIsReadOrIsNoCap) {
  for (const char* value : {"%5", "%6", "%7", "%8", "%9", "%11", "%12", "%13", "%14", "%15"}) {
    const std::string text = replaced(kCappedLoss, "return %10", "return " + std::string(value) + " as more, %10");
    EXPECT_EQ(fused(text).find("vocab_loss"), std::string::npos) << value << "\n" << fused(text);
  }
  for (const auto& [from, to] : std::vector<std::pair<std::string, std::string>>{{"%8: float32[2, 3, 5] = unary %7 function=tanh", "%8: float32[2, 3, 5] = unary %7 function=gelu"},
                                                                                 {"unary_grad %7, %12 function=tanh", "unary_grad %7, %12 function=gelu"},
                                                                                 {"unary_grad %7, %12", "unary_grad %6, %12"},
                                                                                 {"unary %13 function=scale a=0.25", "unary %13 function=scale a=0.75"},
                                                                                 {"unary %7 function=tanh", "unary %7 function=offset a=1"},
                                                                                 {"%6: float32[2, 3, 5] = unary %5 function=scale a=0.5", "%6: float32[2, 3, 5] = unary %5 function=tanh"}}) {
    const std::string text = replaced(kCappedLoss, from, to);
    EXPECT_EQ(fused(text).find("vocab_loss"), std::string::npos) << to << "\n" << fused(text);
  }
}

// As with multi-token prediction: every loss, of logits that one table makes.
TEST(FuseLoss, IsDoneForEveryLoss) {
  const std::string text =
      kLossInputs +
      "%5: float32[2, 3, 5] = einsum %0, %1 equation=\"bsm,mv->bsv\"  # logits\n"
      "%6: float32[2, 3, 4] = unary %0 function=tanh  # further\n"
      "%7: float32[2, 3, 5] = einsum %6, %1 equation=\"bsm,mv->bsv\"  # further/logits\n"
      "%8: float32[] = cross_entropy %7, %2, %3  # further/loss\n"
      "%9: float32[] = cross_entropy %5, %2, %3  # loss\n"
      "%10: float32[] = binary %8, %9 function=add  # both\n"
      "%11: float32[2, 3, 5] = cross_entropy_grad %5, %2, %3, %4 phase backward  # loss'\n"
      "%12: float32[2, 3, 5] = cross_entropy_grad %7, %2, %3, %4 phase backward  # further/loss'\n"
      "%13: float32[2, 3, 4] = einsum %12, %1 equation=\"bsv,mv->bsm\" phase backward  # further/logits'\n"
      "%14: float32[4, 5] = einsum %6, %12 equation=\"bsm,bsv->mv\" phase backward  # further/logits'\n"
      "%15: float32[2, 3, 4] = einsum %11, %1 equation=\"bsv,mv->bsm\" phase backward  # logits'\n"
      "%16: float32[4, 5] = einsum %0, %11 equation=\"bsm,bsv->mv\" phase backward  # logits'\n"
      "%17: float32[4, 5] = binary %14, %16 function=add phase backward  # add\n"
      "return %10 as loss, %13 as further, %15 as dx, %17 as dtable\n";
  const std::string made = fused(text);
  EXPECT_EQ(made.find("cross_entropy"), std::string::npos) << made;
  EXPECT_NE(made.find("vocab_loss %6, %1"), made.find("vocab_loss %0, %1")) << made;
  EXPECT_EQ(std::count(made.begin(), made.end(), '\n'), 5 + 5 + 1) << made;
}

TEST(FuseLoss, IsDoneInBodiesOfRepeats) {
  const test::Training training(test::kTinyModel + "gradient_accumulation_steps=2");
  const auto& instructions = training.trainer.plan().instructions;
  EXPECT_TRUE(std::any_of(instructions.begin(), instructions.end(), [](const plan::Instruction& of) { return of.op == graph::Op::vocab_loss; }));
}

TEST(FuseLoss, LeavesALossWhoseLogitsAreReadOrWhoseGradientNeedsIt) {
  for (const auto& [from, to] : std::vector<std::pair<std::string, std::string>>{
           {"return %7 as loss", "return %5 as logits, %7 as loss"},
           {"return %7 as loss", "%11: float32[2, 3, 5] = unary %5 function=scale a=2  # more\nreturn %11 as logits, %7 as loss"},
           {"return %7 as loss", "%11: float32[2, 3, 5] = unary %8 function=scale a=2  # more\nreturn %11 as dlogits, %7 as loss"},
           {"cross_entropy_grad %5, %2, %3, %4", "cross_entropy_grad %5, %2, %3, %7"}}) {
    const std::string text = replaced(kLoss, from, to);
    EXPECT_EQ(fused(text).find("vocab_loss"), std::string::npos) << fused(text);
  }
}

// The depth of x is a dim of the logits here, and tokens are summed.
TEST(FuseLoss, LeavesLogitsThatAreAnotherProduct) {
  const std::string text =
      "%0: float32[2, 3, 4] = input labels=(-, -, -)  # x\n"
      "%1: float32[3, 5] = input labels=(-, -)  # table\n"
      "%2: int32[2, 4] = input labels=(-, -)  # targets\n"
      "%3: int32[2, 4] = input labels=(-, -)  # segments\n"
      "%4: float32[2, 4, 5] = einsum %0, %1 equation=\"bsm,sv->bmv\"  # logits\n"
      "%5: float32[] = cross_entropy %4, %2, %3 z_loss=0.5  # loss\n"
      "return %5 as loss\n";
  EXPECT_EQ(fused(text), text);
}

// Devices that share the vocabulary, as graphs are after expand.
TEST(FuseLoss, MakesLogitsOfPiecesAgainIfAskedTo) {
  const auto fused = [](const std::string& text, bool makes_again) {
    graph::ParsedGraph parsed = graph::parse_graph("mesh {tensor=2}\n" + text);
    return graph::to_text(with_loss_fused(std::move(parsed.graph), makes_again), &*parsed.mesh);
  };
  const std::string head =
      "%0: float32[2, 3, 4] as [-, -, -] = input labels=(-, -, -)  # x\n"
      "%1: float32[4, 6] as [-, (tensor)] = input labels=(-, -)  # table\n"
      "%2: int32[2, 3] as [-, -] = input labels=(-, -)  # targets\n"
      "%3: int32[2, 3] as [-, -] = input labels=(-, -)  # segments\n"
      "%4: float32[] = input  # dsum\n";
  const std::string text =
      head +
      "%5: float32[2, 3, 6] as [-, -, (tensor)] = einsum %0, %1 equation=\"bsm,mv->bsv\"  # logits\n"
      "%6: float32[2, 3] as [-, -]+sum(tensor), %7: float32[2, 3, 2] as [-, -, (tensor)] = vocab_scores %5, %2  # scores\n"
      "%8: float32[2, 3] as [-, -] = reshard %6 kind=all-reduce axes=(tensor)  # scores\n"
      "%9: float32[2, 3, 2] as [-, -, -] = reshard %7 kind=all-gather axes=(tensor) from=2  # logs\n"
      "%10: float32[] = cross_entropy_of_scores %8, %9, %3 z_loss=0.5  # loss\n"
      "%11: float32[2, 3, 6] as [-, -, (tensor)] = cross_entropy_grad %5, %2, %3, %4, %9 z_loss=0.5 phase backward  # loss'\n"
      "%12: float32[2, 3, 4] as [-, -, -]+sum(tensor) = einsum %11, %1 equation=\"bsv,mv->bsm\" phase backward  # logits'\n"
      "%13: float32[4, 6] as [-, (tensor)] = einsum %0, %11 equation=\"bsm,bsv->mv\" phase backward  # logits'\n"
      "return %10 as loss, %12 as dx, %13 as dtable\n";
  EXPECT_EQ(fused(text, false).find("vocab_logs"), std::string::npos);
  const std::string made = fused(text, true);
  EXPECT_NE(made.find("float32[2, 3] as [-, -]+sum(tensor), %6: float32[2, 3, 2] as [-, -, (tensor)] = vocab_logs %0, %1, %2 z_loss=0.5"), std::string::npos) << made;
  EXPECT_NE(made.find("float32[2, 3, 4] as [-, -, -]+sum(tensor), %11: float32[4, 6] as [-, (tensor)] = vocab_loss_grad %0, %1, %2, %3, %4, %8 z_loss=0.5 phase backward"), std::string::npos) << made;
  EXPECT_EQ(made.find("einsum"), std::string::npos) << made;
}

TEST(FuseLoss, HoldsNoLogitsOfPiecesWithTiling) {
  const std::string request = test::kTinyMixtral + std::string("compile_topology=cpu-4 ici_tensor_parallelism=2 ici_fsdp_parallelism=2 vocab_size=24 base_num_kv_heads=2 ");
  const auto has = [&](const std::string& more, graph::Op op) {
    const test::Training training(request + more);
    const auto& instructions = training.trainer.plan().instructions;
    return std::any_of(instructions.begin(), instructions.end(), [&](const plan::Instruction& of) { return of.op == op; });
  };
  EXPECT_TRUE(has("", graph::Op::cross_entropy_grad));
  for (const std::string more : {"", " logits_via_embedding=true final_logits_soft_cap=3", " gradient_accumulation_steps=2"}) {
    EXPECT_TRUE(has("num_vocab_tiling=2" + more, graph::Op::vocab_loss_grad)) << more;
    EXPECT_FALSE(has("num_vocab_tiling=2" + more, graph::Op::cross_entropy_grad)) << more;
  }
}

// Compares the losses of three steps with those of a run that holds the logits. The later losses also show that the same is learnt.
TEST(FuseLoss, TrainsAsTheLossOfLogits) {
  for (const std::string more : {"", "z_loss_multiplier=0.01", "logits_via_embedding=true", "untied_logits_soft_cap=3", "logits_via_embedding=true final_logits_soft_cap=3 gradient_accumulation_steps=2",
                                  "compile_topology=cpu-4 ici_fsdp_parallelism=4", "compile_topology=cpu-4 ici_tensor_parallelism=2 ici_fsdp_parallelism=2 vocab_size=24 base_num_kv_heads=2",
                                  "compile_topology=cpu-4 ici_tensor_parallelism=2 ici_fsdp_parallelism=2 vocab_size=24 base_num_kv_heads=2 num_vocab_tiling=2 z_loss_multiplier=0.01",
                                  "compile_topology=cpu-4 ici_tensor_parallelism=2 ici_fsdp_parallelism=2 vocab_size=24 base_num_kv_heads=2 num_vocab_tiling=2 logits_via_embedding=true final_logits_soft_cap=3 gradient_accumulation_steps=2"}) {
    for (const bool low : {false, true}) {
      const std::string request = test::kTinyMixtral + more + (low ? " dtype=bfloat16" : "");
      test::Training without(request), with(request, 2, {.logits = true});
      for (std::int64_t step = 0; step < 3; ++step) {
        const double loss = without.trainer.run_step(without.batch(step)).metrics.loss, expected = with.trainer.run_step(with.batch(step)).metrics.loss;
        EXPECT_NEAR(loss, expected, (low ? 1e-3 : 1e-6) * expected) << request;
      }
    }
  }
}

}  // namespace
}  // namespace moesh::partition
