// The indexer of DeepSeek 3.2: what it is refused for, what it changes, and what its loss trains.
#include <cmath>

#include <gmock/gmock.h>

#include "tests/config/small_models.h"
#include "tests/train/trainer_support.h"
#include "train/run_words.h"

namespace moesh {
namespace {

using test::kIndexed;
using test::Training;
using ::testing::EndsWith;
using ::testing::HasSubstr;

const std::string kFloats = kIndexed + "dtype=float32 ";
const std::string kWarmUp = kFloats + "indexer_sparse_training=false ";

// A step is refused; what does not train, such as decoding, is not.
TEST(Indexer, HasALossOnlyWhereItLeavesKeysOut) {
  const std::string idle = kIndexed + "indexer_topk=8 max_target_length=8";
  EXPECT_EQ(test::refusal_of(idle), "no error");
  EXPECT_THAT(test::message_of([&] { test::Training training(idle); }),
              HasSubstr("indexer_topk is 8, of rows of 8 tokens: the indexer chooses nothing, and has no loss to learn from"));
}

TEST(Indexer, IsRefusedWhereItHasNothingToChooseFor) {
  const std::string words = "use_indexer=true chooses keys for latent attention with a latent query (q_lora_rank), which this model does not have";
  EXPECT_THAT(test::refusal_of(test::kLlama + "use_indexer=true"), HasSubstr(words));
  EXPECT_THAT(test::refusal_of(kIndexed + "q_lora_rank=0"), HasSubstr(words));
  EXPECT_THAT(test::refusal_of(kIndexed + "indexer_head_dim=6"),
              HasSubstr("indexer_head_dim is 6, of which 8 are rotated (qk_rope_head_dim)\n  fix: indexer_head_dim=8"));
}

train::StepMetrics first_step(const std::string& request) {
  Training training(request);
  return training.trainer.run_step(training.batch()).metrics;
}

TEST(Indexer, SaysWhenItChoosesAllKeys) {
  const auto told = [](const std::string& request) { return config::idle_indexer(config::load(test::words_of(request)).settings); };
  EXPECT_EQ(told("model_name=deepseek3.2-671b"), "the indexer leaves nothing out: indexer_topk=2048 of rows of 2,048 tokens (max_target_length)");
  EXPECT_EQ(told("model_name=deepseek3.2-671b max_target_length=2049"), "");
  EXPECT_EQ(told("model_name=deepseek3-671b"), "");
}

// Without a loss, an indexer that may choose as many keys as there are has no part in anything.
TEST(Indexer, OfAsManyKeysAsThereAreChangesNothing) {
  const std::string silent = kFloats + "indexer_loss_scaling_factor=0 max_target_length=8 ";
  const double without = first_step(silent + "use_indexer=false").loss;
  EXPECT_EQ(first_step(silent + "indexer_topk=8").loss, without);
  EXPECT_NE(first_step(silent + "indexer_topk=7").loss, without);
  EXPECT_EQ(first_step(silent + "indexer_topk=7").index_loss, 0.0);
  EXPECT_EQ(first_step(silent + "use_indexer=false").index_loss, std::nullopt);
}

TEST(Indexer, AddsItsLossToThatOfTheTokens) {
  const train::StepMetrics made = first_step(kFloats), twice = first_step(kFloats + "indexer_loss_scaling_factor=0.2");
  ASSERT_GT(made.index_loss.value(), 1e-4);
  EXPECT_NEAR(made.loss, made.lm_loss + *made.index_loss, 1e-6);
  EXPECT_NEAR(*twice.index_loss, 2 * *made.index_loss, 1e-6);
  EXPECT_THAT(train::step_line(made, {1, 1, 1, 1}, true), EndsWith(fmt::format(", indexer_loss: {:.6f}", *made.index_loss)));
}

// The summed losses of several microbatches are the metric, and their mean is a part of the loss, as in MaxText.
TEST(Indexer, HasALossOfEachMicrobatch) {
  const train::StepMetrics made = first_step(kFloats + "per_device_batch_size=4 gradient_accumulation_steps=2");
  EXPECT_NEAR(made.loss, made.lm_loss + *made.index_loss / 2, 1e-6);
}

bool is_of_indexer(const std::string& path) { return path.find("/indexer/") != std::string::npos; }

// In the first step of this schedule the rate is not 0.
const std::string kAtOnce = " warmup_steps_fraction=0 adam_weight_decay=0 ";

std::vector<std::string> changed_by_a_step(const std::string& request) {
  Training training(request + kAtOnce);
  std::vector<std::vector<double>> before;
  for (const std::string& path : training.paths()) before.push_back(training.parameter(path));
  training.trainer.run_step(training.batch());
  std::vector<std::string> changed;
  for (std::size_t i = 0; i < before.size(); ++i) {
    if (training.parameter(training.paths()[i]) != before[i]) changed.push_back(training.paths()[i]);
  }
  return changed;
}

TEST(Indexer, LearnsAloneWhileItWarmsUp) {
  for (const std::string more : {"", "scan_layers=false ", "per_device_batch_size=4 gradient_accumulation_steps=2 "}) {
    const std::vector<std::string> changed = changed_by_a_step(kWarmUp + more);
    EXPECT_EQ(changed.size(), 10u) << more;
    for (const std::string& path : changed) EXPECT_TRUE(is_of_indexer(path)) << path;
    const train::StepMetrics made = first_step(kWarmUp + more);
    EXPECT_EQ(made.lm_loss, 0) << more;
    EXPECT_GT(made.loss, 1e-4) << more;
  }
}

TEST(Indexer, LearnsBesideAllOthersAfterThat) {
  const std::vector<std::string> changed = changed_by_a_step(kFloats);
  EXPECT_EQ(std::count_if(changed.begin(), changed.end(), is_of_indexer), 10);
  EXPECT_GT(changed.size(), 20u);
}

TEST(Indexer, LearnsNothingWithoutItsLoss) {
  for (const std::string& path : changed_by_a_step(kFloats + "indexer_loss_scaling_factor=0")) EXPECT_FALSE(is_of_indexer(path)) << path;
}

std::int64_t kernels_of(const std::string& request, graph::Op op) {
  const session::Session session = test::session(request);
  const train::StepProgram program = train::step_program(session.graph, session.loaded.settings, {session.layout, session.target});
  return std::count_if(program.plan.instructions.begin(), program.plan.instructions.end(),
                       [&](const plan::Instruction& instruction) { return instruction.op == op; });
}

// No gradient enters the layers from behind, so there is no backward pass but the indexers': unless a layer has another loss of its own,
// which flows into those before it.
TEST(Indexer, WarmsUpWithoutTheBackwardPassOfTheModel) {
  for (const std::string scan : {"", "scan_layers=false "}) {
    EXPECT_EQ(kernels_of(kWarmUp + scan, graph::Op::attention_grad), 0) << scan;
    EXPECT_GT(kernels_of(kWarmUp + scan, graph::Op::index_scores_grad), 0) << scan;
    EXPECT_GT(kernels_of(kWarmUp + scan + "load_balance_loss_weight=0.01", graph::Op::attention_grad), 0) << scan;
  }
}

TEST(Indexer, WarmsUpToTheSameWhetherALossFlowsBackOrNot) {
  const train::StepMetrics alone = first_step(kWarmUp), beside = first_step(kWarmUp + "load_balance_loss_weight=0.01");
  EXPECT_EQ(alone.index_loss, beside.index_loss);
  EXPECT_GT(beside.balance_loss, 0);
  EXPECT_NEAR(beside.loss, beside.balance_loss + *beside.index_loss, 1e-6);
}

}  // namespace
}  // namespace moesh
