// The loss on data that is not trained on: its value, when it is computed, and its effect on a run.
#include "train/evaluation.h"

#include <csignal>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "config/schema.h"
#include "tests/cli/outcome.h"
#include "tests/decode/decode_support.h"
#include "tests/process.h"
#include "tests/train/train_support.h"
#include "tests/train/trainer_support.h"
#include "train/run_record.h"

namespace moesh::train {
namespace {

using ::testing::HasSubstr;

class Evaluating {
 public:
  explicit Evaluating(const std::string& request)
      : training_(request),
        evaluated_(session::evaluated(training_.session)),
        evaluation_(subject(), evaluation_program(subject(), step()), training_.trainer, 2) {}

  EvalMetrics run(std::int64_t step = 0) {
    return evaluation_.run(step, [](const std::exception_ptr&) { return false; }).value();
  }
  Evaluation& evaluation() { return evaluation_; }
  test::Training& training() { return training_; }

 private:
  Subject subject() const {
    return {evaluated_.graph, training_.settings(), evaluated_.batch, {evaluated_.layout, training_.session.target}};
  }

  StepProgram step() const {
    return step_program(training_.session.graph, training_.settings(), {training_.session.layout, training_.session.target});
  }

  test::Training training_;
  session::Evaluated evaluated_;
  Evaluation evaluation_;
};

// For the batch that is trained next, it is the loss of that step, on any mesh and for every expert strategy.
TEST(EvaluationSlow, FindsTheLossThatTrainingWouldReport) {
  const std::string ep =
      "compile_topology=cpu-4 ici_fsdp_parallelism=2 ici_expert_parallelism=2 num_experts=4 base_num_kv_heads=2 "
      "vocab_size=24 ";
  for (const std::string& more :
       {std::string(), std::string("z_loss_multiplier=0.01 "), std::string("load_balance_loss_weight=0.01 "),
        std::string("logits_via_embedding=true "), std::string("sparse_matmul=false "),
        std::string("sparse_matmul=false capacity_factor=1.0 "), std::string("dtype=bfloat16 "),
        std::string("compile_topology=cpu-4 ici_fsdp_parallelism=4 "), ep, ep + "use_ring_of_experts=true ",
        ep + "custom_mesh_and_rule=ep-tp use_ring_of_experts=true ",
        ep + "custom_mesh_and_rule=ep-as-cp max_target_length=8 ", ep + "scan_layers=false ", ep + "owners=2 ",
        std::string("compile_topology=cpu-2 ici_fsdp_parallelism=1 ici_tensor_parallelism=2 vocab_size=24 "
                    "base_num_kv_heads=2 "),
        std::string("compile_topology=cpu-2 ici_fsdp_parallelism=1 ici_context_parallelism=2 max_target_length=8 ")}) {
    Evaluating of(test::kTinyMixtral + more + "eval_interval=1 eval_steps=1 ");
    const EvalMetrics found = of.run();
    const StepMetrics trained = of.training().trainer.step(of.training().batch());
    EXPECT_NEAR(found.loss, trained.lm_loss, 1e-6 * trained.lm_loss) << more;
    EXPECT_NEAR(found.balance_loss, trained.balance_loss, 1e-6) << more;
    EXPECT_EQ(found.total_weights, trained.total_weights) << more;
    EXPECT_NEAR(found.z_loss, trained.z_loss, 1e-6 * trained.z_loss) << more;
    EXPECT_EQ(trained.z_loss > 0, of.training().settings().real("z_loss_multiplier") > 0) << more;
  }
}

// What updates parameters decides in which order they lie in memory, so each kind of update is tried.
TEST(EvaluationSlow, ReadsParametersAsEveryOptimizerKeepsThem) {
  const std::string eval = " eval_interval=1 eval_steps=1 ";
  const std::string deepseek =
      test::kSmallWidths + test::small_model("deepseek3").request +
      "compile_topology=cpu-1 ici_fsdp_parallelism=1 max_target_length=8 per_device_batch_size=4 dataset_type=synthetic ";
  for (const config::Choice& choice : config::choices(*config::find_key("opt_type"))) {
    if (choice.refused) continue;
    const std::string optimizer(choice.word);
    for (const std::string& model : {test::kTinyMixtral, deepseek + "routed_bias=true routed_bias_update_rate=0.01 "}) {
      for (const char* mesh : {"", "compile_topology=cpu-2 ici_fsdp_parallelism=2 owners=2 "}) {
        Evaluating of(model + mesh + "opt_type=" + optimizer + eval);
        const EvalMetrics found = of.run();
        const StepMetrics trained = of.training().trainer.step(of.training().batch());
        EXPECT_NEAR(found.loss, trained.lm_loss, 1e-6 * trained.lm_loss) << optimizer << " " << model << mesh;
      }
    }
  }
}

// The share of a module's guesses that are the model's own: none is known at first, and all are learned from a fixed batch.
TEST(Evaluation, ExaminesAModuleThatPredictsAhead) {
  const std::string request = test::kTinyModel +
                              "mtp_num_layers=2 mtp_eval_target_module=2 mtp_loss_scaling_factor=1 learning_rate=0.02 max_target_length=8 "
                              "eval_interval=1 eval_steps=1 ";
  for (const char* mesh : {"", "compile_topology=cpu-2 ici_fsdp_parallelism=1 ici_context_parallelism=2 per_device_batch_size=1 owners=2 "}) {
    Evaluating of(request + mesh + "steps=40 ");
    const EvalMetrics first = of.run();
    for (int step = 0; step < 40; ++step) of.training().trainer.step(of.training().batch());
    const EvalMetrics last = of.run();
    EXPECT_LT(*first.mtp_acceptance, 50) << mesh;
    EXPECT_GT(*last.mtp_acceptance, 90) << mesh;
    EXPECT_LT(*last.mtp_loss, *first.mtp_loss / 2) << mesh;
  }
  EXPECT_FALSE(Evaluating(test::kTinyModel + "mtp_num_layers=1 eval_interval=1 eval_steps=1 ").run().mtp_acceptance.has_value());
}

// If a step accumulates microbatches, a batch of an evaluation has as many rows as one microbatch.
TEST(EvaluationSlow, IsTheMeanOverAllPositionsOfItsBatches) {
  const test::TemporaryFolder folder;
  const std::string request =
      test::kTinyModel + "vocab_size=256 dataset_type=text dataset_path=x eval_interval=1 eval_dataset_path=" +
      folder.write("v.txt", "a validation set of several rows that do not make whole batches") + " ";
  Evaluating one(request + "eval_per_device_batch_size=1 dataset_path=" + folder.write("t.txt", "what is trained on")),
      three(request + "eval_per_device_batch_size=3 gradient_accumulation_steps=2 dataset_path=" + folder.path() +
            "/t.txt");
  const EvalMetrics by_one = one.run(), by_three = three.run();
  EXPECT_EQ(by_one.batches, 9);
  EXPECT_EQ(by_three.batches, 3);
  EXPECT_EQ(by_one.total_weights, 63);
  EXPECT_NEAR(by_one.loss, by_three.loss, 1e-6 * by_one.loss);
}

TEST(EvaluationSlow, LeavesTrainingAsItIs) {
  test::Training alone(test::kTinyMixtral);
  Evaluating between(test::kTinyMixtral + "eval_interval=1 eval_per_device_batch_size=8 eval_steps=2 ");
  for (std::int64_t step = 0; step < 3; ++step) {
    EXPECT_EQ(alone.trainer.step(alone.batch(step)).loss,
              between.training().trainer.step(between.training().batch(step)).loss);
    between.run(step);
  }
}

TEST(Evaluation, IsDueAtItsInterval) {
  const config::Settings settings = config::load(test::words_of("eval_interval=3 eval_start_step=2")).settings;
  std::vector<std::int64_t> due;
  for (std::int64_t step = 0; step < 10; ++step) {
    if (is_evaluated_after(settings, step)) due.push_back(step);
  }
  EXPECT_EQ(due, (std::vector<std::int64_t>{2, 5, 8}));
}

TEST(Evaluation, EndsBetweenItsBatchesWhereItMust) {
  Evaluating of(test::kTinyModel + "eval_interval=1 eval_steps=5 ");
  int asked = 0;
  EXPECT_FALSE(of.evaluation().run(0, [&](const std::exception_ptr&) { return ++asked == 3; }).has_value());
  EXPECT_EQ(asked, 3);
}

const std::string kRun = "train " + test::kTinyModel + "log_config=false run_name=r eval_interval=2 eval_steps=1 ";

TEST(Evaluation, IsToldAsTheReferenceTellsIt) {
  const test::TemporaryFolder folder;
  const cli::Outcome done = cli::outcome(kRun + "steps=4 base_output_directory=" + folder.path());
  EXPECT_EQ(done.code, 0) << done.err;
  EXPECT_THAT(done.out, HasSubstr("evaluated every 2 steps on 1 batch of 2 rows of synthetic tokens"));
  EXPECT_THAT(done.out,
              ::testing::ContainsRegex(
                  "\nCompleted eval after train step 2, loss=[0-9.]+, perplexity=[0-9.]+, total_weights=14.0, "
                  "avg_z_loss=0.000\n"));
  std::vector<nlohmann::json> found;
  for (const auto& line : test::metrics_in(folder.path() + "/r/metrics.jsonl")) {
    if (line.contains("eval_step")) found.push_back(line);
  }
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[1]["eval_step"], 2);
  for (const char* key :
       {"eval/avg_loss", "eval/avg_perplexity", "eval/total_weights", "eval/avg_moe_lb_loss", "eval/avg_z_loss", "seconds", "batches"}) {
    EXPECT_TRUE(found[0].contains(key)) << key;
  }
  EXPECT_THAT(cli::outcome(kRun + "z_loss_multiplier=0.1 steps=1 metrics_file=/dev/null").out,
              ::testing::ContainsRegex("avg_z_loss=[1-9]"));
}

TEST(Evaluation, EndsTrainingThatHasReachedItsTarget) {
  const cli::Outcome done = cli::outcome(kRun + "steps=9 target_eval_loss=1000 metrics_file=/dev/null");
  EXPECT_EQ(done.code, 0) << done.err;
  EXPECT_THAT(done.out, HasSubstr("target_eval_loss is reached: 1 step in "));
}

TEST(Evaluation, OfNoBatchIsRefused) {
  EXPECT_THAT(cli::outcome("train " + test::kTinyModel + "eval_interval=3 eval_steps=0").err,
              HasSubstr("eval_interval=3 asks for evaluations, and eval_steps=0 gives them no batch"));
  EXPECT_EQ(cli::outcome("train " + test::kTinyModel + "steps=1 eval_steps=0 metrics_file=/dev/null").code, 0);
}

// A run with a folder of its own, which keeps its checkpoints.
struct KeptEvaluations {
  test::TemporaryFolder folder;
  std::string words = kRun + "enable_checkpointing=true eval_interval=2 base_output_directory=" + folder.path() + " ";

  // Is asked to end during an endless evaluation after step 2.
  int interrupted(const std::string& more) const {
    test::Process process(words + "eval_start_step=2 eval_steps=1000000000 " + more, folder.path());
    EXPECT_TRUE(test::wait_until([&] { return process.out().find("completed step: 2") != std::string::npos; })) << process.err();
    process.send(SIGTERM);
    return process.wait();
  }
  std::vector<std::int64_t> evaluated() const {
    std::vector<std::int64_t> steps;
    for (const auto& line : test::metrics_in(folder.path() + "/r/metrics.jsonl")) {
      if (line.contains("eval_step")) steps.push_back(line["eval_step"]);
    }
    return steps;
  }
};

TEST(Evaluation, ThatASignalCutOffIsDoneWhenTheRunGoesOn) {
  const KeptEvaluations last;
  EXPECT_EQ(last.interrupted("steps=3"), 143);
  EXPECT_TRUE(last.evaluated().empty());
  const cli::Outcome again = cli::outcome(last.words + "steps=3");
  EXPECT_EQ(again.code, 0) << again.err;
  EXPECT_THAT(again.out, HasSubstr("\nCompleted eval after train step 2, "));
  EXPECT_THAT(again.out, HasSubstr("\nthe evaluation that was missing is done; no step was made.\n"));
  EXPECT_EQ(cli::outcome(last.words + "steps=3 --quiet").out, "Nothing is left to do: steps=3. More steps go on from here.\n");
  EXPECT_EQ(last.evaluated(), (std::vector<std::int64_t>{2}));
  const KeptEvaluations between;
  EXPECT_EQ(between.interrupted("steps=6"), 143);
  EXPECT_EQ(cli::outcome(between.words + "steps=6").code, 0);
  EXPECT_EQ(between.evaluated(), (std::vector<std::int64_t>{2, 4}));
}

TEST(Evaluation, ThatReachedTheTargetEndsTheRunForGood) {
  const KeptEvaluations run;
  EXPECT_THAT(cli::outcome(run.words + "steps=9 target_eval_loss=1000").out, HasSubstr("target_eval_loss is reached: 1 step in "));
  EXPECT_EQ(cli::outcome(run.words + "steps=9 target_eval_loss=1000 --quiet").out,
            "Nothing is left to do: the loss of the last evaluation has reached target_eval_loss.\n");
  EXPECT_THAT(cli::outcome(run.words + "steps=3 target_eval_loss=0.001").out, HasSubstr("\n2 steps in "));
}

TEST(Evaluation, IsForgottenWhenItsStepIsDoneAgain) {
  const test::TemporaryFolder folder;
  const auto recorded = [&](const std::string& lines) {
    return recorded_evaluation(folder.write("m.jsonl", "{\"run\": {}}\n" + lines), 4);
  };
  const std::string evaluation = "{\"eval_step\": 4, \"eval/avg_loss\": 2.5}\n";
  EXPECT_EQ(recorded(evaluation), 2.5);
  EXPECT_EQ(recorded(evaluation + "{\"step\": 5, \"loss\": 1}\n"), 2.5);
  EXPECT_FALSE(recorded(evaluation + "{\"step\": 4, \"loss\": 1}\n"));
  EXPECT_FALSE(recorded(evaluation + "{\"step\": 3, \"loss\": 1}\n"));
  EXPECT_FALSE(recorded("{\"eval_step\": 2, \"eval/avg_loss\": 2.5}\n"));
  EXPECT_EQ(recorded("{\"eval_step\": 2, \"eval/avg_loss\": 1}\n" + evaluation + "{\"eval_step\": 6, \"eval/avg_loss\": 3}\n"), 2.5);
  EXPECT_EQ(recorded(evaluation + "{\"step\": 4, \"loss\": 1}\n{\"eval_step\": 4, \"eval/avg_loss\": 3}\n"), 3);
  EXPECT_FALSE(recorded("{\"eval_step\": 4, \"eval/avg_lo"));
  EXPECT_FALSE(recorded_evaluation("/dev/null", 4));
}

}  // namespace
}  // namespace moesh::train
