// `moesh runs`: lists runs and compares them, read from their metrics.
#include <fstream>

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/cli/outcome.h"
#include "tests/train/trainer_support.h"
#include "train/line_file.h"
#include "train/run_record.h"

namespace moesh::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

const std::string kTrainOne = "train " + test::kTinyModel + " compile_topology=cpu-1 log_config=false dataset_type=synthetic ";

class Runs : public ::testing::Test {
 protected:
  void write(const std::string& name, const std::string& lines) const { folder_.write(name, lines); }

 private:
  test::TemporaryFolder folder_;
  test::WorkingFolder here_{folder_.path()};
};

TEST_F(Runs, AreListedWithTheirLastFigures) {
  ASSERT_EQ(outcome(kTrainOne + "run_name=a steps=3 eval_interval=2 eval_steps=1").code, 0);
  ASSERT_EQ(outcome(kTrainOne + "run_name=b/c steps=2").code, 0);
  const Outcome listed = outcome("runs");
  EXPECT_EQ(listed.code, 0) << listed.err;
  EXPECT_THAT(listed.out, AllOf(HasSubstr("moesh_output/a "), HasSubstr("moesh_output/b/c "), HasSubstr("3 of 3"), HasSubstr("done")));
  const auto json = nlohmann::json::parse(outcome("runs moesh_output --json").out);
  ASSERT_EQ(json.size(), 2u);
  EXPECT_EQ(json[0]["steps"], 3);
  EXPECT_GT(json[0]["eval_loss"].get<double>(), 0);
  EXPECT_FALSE(json[1].contains("eval_loss"));
  EXPECT_EQ(json[1]["run"], "moesh_output/b/c");
}

TEST_F(Runs, DifferInSettingsAndFromAStepOn) {
  ASSERT_EQ(outcome(kTrainOne + "run_name=a steps=4").code, 0);
  ASSERT_EQ(outcome(kTrainOne + "run_name=b steps=4 learning_rate=0.5").code, 0);
  ASSERT_EQ(outcome(kTrainOne + "run_name=c steps=4").code, 0);
  const Outcome parted = outcome("runs diff moesh_output/a moesh_output/b");
  EXPECT_THAT(parted.out, AllOf(HasSubstr("learning_rate"), HasSubstr("0.5"), HasSubstr("Losses part at step "), HasSubstr("Tokens/s: ")));
  EXPECT_THAT(outcome("runs diff moesh_output/a moesh_output/c").out, HasSubstr("The same losses in all 4 steps that both did."));
  const auto json = nlohmann::json::parse(outcome("runs diff moesh_output/a/metrics.jsonl moesh_output/b --json").out);
  EXPECT_EQ(json["steps_of_both"], 4);
  EXPECT_GE(json["losses_part_at"].get<int>(), 1);
  EXPECT_TRUE(nlohmann::json::parse(outcome("runs diff moesh_output/a moesh_output/c --json").out)["losses_part_at"].is_null());
}

constexpr const char* kBegin = 
    "{\"run\": {\"moesh\": \"0.1.0\", \"began\": \"2026-01-01T00:00:00+0000\", \"settings\": {\"steps\": \"9\"}}}";

TEST_F(Runs, ThatWereKilledOrDamagedAreReadAsFarAsTheyGo) {
  write("metrics.jsonl", std::string(kBegin) +
                             "\n{\"step\": 0, \"loss\": 5, \"seconds\": 1, \"total_weights\": 8}\n{\"step\": 1, \"lo\n[]\nnull\n{\"step\": \"x\"}\n"
                             "{\"step\": 1, \"loss\": null, \"seconds\": 1, \"moe\": {\"tokens\": [[1,2],[3,4]], \"max_over_mean\": [1.25, 1.5], \"dropped\": [1, 2]}}\n"
                             "{\"eval_step\": 1, \"eval/avg_loss\": 4}\n{\"step\": 2, \"loss\": 3");
  const train::RunRecord run = train::read_run(".");
  EXPECT_EQ(run.starts, 1);
  ASSERT_EQ(run.steps.size(), 2u);
  EXPECT_EQ(run.steps[0].tokens_per_second(), 8);
  EXPECT_TRUE(std::isnan(run.steps[1].loss));
  EXPECT_TRUE(std::isnan(run.steps[0].busiest));
  EXPECT_EQ(run.steps[1].busiest, 1.5);
  EXPECT_EQ(run.steps[1].dropped, 3);
  ASSERT_EQ(run.evals.size(), 1u);
  const Outcome listed = outcome("runs .");
  EXPECT_THAT(listed.out, AllOf(HasSubstr("2 of 9"), HasSubstr("not a number"), HasSubstr("ended before")));
  EXPECT_THAT(listed.err, HasSubstr("metrics.jsonl: 4 lines cannot be read and are left out"));
}

// A run that was started again from an earlier step abandons the later ones, and what was measured of them.
TEST_F(Runs, ForgetWhatWasRecordedOfAbandonedSteps) {
  const auto step = [](int number) { return fmt::format("{{\"step\": {}, \"loss\": 5, \"seconds\": 1}}\n", number); };
  const auto evaluation = [](int number, double loss) {
    return fmt::format("{{\"eval_step\": {}, \"eval/avg_loss\": {}}}\n", number, loss);
  };
  const std::string first = kBegin + ("\n" + step(9)) + evaluation(9, 4) + step(49) + evaluation(49, 1.1) + kBegin + "\n";
  write("metrics.jsonl", first);
  EXPECT_EQ(train::read_run(".").evals.size(), 2u) << "nothing is abandoned yet";
  write("metrics.jsonl", first + step(10) + step(11));
  const train::RunRecord run = train::read_run(".");
  ASSERT_EQ(run.steps.size(), 3u);
  ASSERT_EQ(run.evals.size(), 1u);
  EXPECT_EQ(run.evals[0].step, 9);
  EXPECT_EQ(nlohmann::json::parse(outcome("runs . --json").out)[0]["eval_loss"], 4);
  for (const train::RecordedEval& eval : run.evals) EXPECT_EQ(train::recorded_evaluation("metrics.jsonl", eval.step), eval.loss);
  EXPECT_FALSE(train::recorded_evaluation("metrics.jsonl", 49));
}

TEST_F(Runs, OfStepsThatNoIntegerHoldsLeaveThemOut) {
  write("metrics.jsonl", std::string(kBegin) + "\n{\"step\": 1e300, \"loss\": 5}\n{\"step\": 18446744073709551615, \"loss\": 5}\n{\"eval_step\": 1e300}\n"
                             "{\"run\": {\"ended\": \"x\", \"memory\": 1e300}}\n{\"step\": 3, \"loss\": 5}\n");
  EXPECT_THAT(outcome("runs .").err, HasSubstr("metrics.jsonl: 4 lines cannot be read and are left out"));
  EXPECT_EQ(train::read_run(".").steps.size(), 1u);
}

TEST_F(Runs, WithALineThatIsTooLongSayThatItIsLeftOut) {
  write("metrics.jsonl", std::string(kBegin) + "\n{\"step\": 0, \"loss\": 5, \"seconds\": 1, \"notes\": \"" + std::string(65 << 20, 'x') + "\"}\n");
  EXPECT_THAT(outcome("runs .").err, HasSubstr("metrics.jsonl: 1 line cannot be read and is left out"));
}

TEST_F(Runs, ThatWereStartedAgainAreOneCourse) {
  const auto step = [](int number, int loss) { return fmt::format("{{\"step\": {}, \"loss\": {}, \"seconds\": 1}}\n", number, loss); };
  write("m.jsonl", std::string(kBegin) + "\n" + step(0, 9) + step(1, 8) + step(2, 7) + kBegin + "\n" + step(1, 6) + step(2, 5) + step(3, 4));
  const train::RunRecord run = train::read_run("m.jsonl");
  EXPECT_EQ(run.starts, 2);
  std::vector<double> losses;
  for (const train::RecordedStep& one : run.steps) losses.push_back(one.loss);
  EXPECT_EQ(losses, (std::vector<double>{9, 6, 5, 4}));
}

// If a step was repeated after a restart, its last record counts.
TEST_F(Runs, TellWhatExpertsHadOverStretchesOfTheirSteps) {
  const auto step = [](int number, const std::string& tokens) {
    return fmt::format("{{\"step\": {}, \"loss\": 1, \"moe\": {{\"tokens\": {}}}}}\n", number, tokens);
  };
  write("m.jsonl", std::string(kBegin) + "\n" + step(0, "[[1, 2], [0, 1], [9, 9, 9]]") + step(1, "[[50, 50], [50, 50]]") + kBegin + "\n" +
                       step(1, "[[3, 4], [1, 1], [1]]") + step(2, "[[5, 6]]") + step(3, "[]") + "damage\n" + step(4, "[[7, 8], [2, 0], [1, 2, 3]]"));
  const train::RunRecord run = train::read_run("m.jsonl");
  using Sums = std::vector<std::vector<double>>;
  const train::ExpertHistory all = train::expert_history(run, 9, 9);
  EXPECT_EQ(all.layers, 3u);
  ASSERT_EQ(all.chosen.size(), 3u);
  EXPECT_EQ(all.chosen[0].tokens, (Sums{{1, 2}, {3, 4}, {5, 6}, {0, 0}, {7, 8}}));
  EXPECT_EQ(all.chosen[2].tokens, (Sums{{9, 9, 9}, {0, 0, 0}, {0, 0, 0}, {0, 0, 0}, {1, 2, 3}}));
  const train::ExpertHistory some = train::expert_history(run, 2, 2);
  EXPECT_EQ(some.layers, 3u);
  ASSERT_EQ(some.chosen.size(), 2u);
  EXPECT_EQ(some.chosen[1].layer, 1u);
  EXPECT_EQ(some.chosen[0].tokens, (Sums{{4, 6}, {12, 14}}));
  EXPECT_EQ(some.chosen[1].tokens, (Sums{{1, 2}, {2, 0}}));
}

TEST_F(Runs, ThatAreWrittenJustNowGoOn) {
  write("metrics.jsonl", std::string(kBegin) + "\n");
  EXPECT_FALSE(train::read_run(".").goes_on);
  const train::LineFile held("metrics.jsonl", "{\"run\": {\"moesh\": \"");
  EXPECT_TRUE(train::read_run(".").goes_on);
}

TEST_F(Runs, RefusesWhatIsNoRun) {
  write("text", "some text\n");
  EXPECT_THAT(outcome("runs").err, HasSubstr("no such folder"));
  EXPECT_THAT(outcome("runs .").err, HasSubstr("no run is there"));
  EXPECT_THAT(outcome("runs a b").err, HasSubstr("'b' besides a folder"));
  EXPECT_THAT(outcome("runs diff a").err, HasSubstr("1 run, two were expected"));
  EXPECT_THAT(outcome("runs diff text text").err, HasSubstr("text: it holds no metrics of moesh"));
  EXPECT_THAT(outcome("runs diff nowhere text").err, HasSubstr("nowhere"));
  EXPECT_THAT(outcome("runs steps=3").err, HasSubstr("'steps=3' changes nothing of runs"));
}

}  // namespace
}  // namespace moesh::cli
