// `moesh train` as a whole command: what it prints and writes, and which requests it refuses.
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/cli/outcome.h"

namespace moesh::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

const std::string kTinyTrained =
    "train base_num_decoder_layers=1 base_emb_dim=16 base_mlp_dim=32 base_num_query_heads=2 base_num_kv_heads=2 "
    "head_dim=8 vocab_size=256 max_target_length=16 per_device_batch_size=1 compile_topology=cpu-1 steps=2 "
    "dataset_type=synthetic dtype=float32 log_config=false enable_checkpointing=false run_name=r base_output_directory=";

TEST(TrainCommand, PrintsALineAStepAndWritesTheSame) {
  const test::TemporaryFolder folder;
  const Outcome done = outcome(kTinyTrained + folder.path());
  EXPECT_EQ(done.code, 0) << done.err;
  EXPECT_THAT(done.out, StartsWith("the built-in base.yml, as base_num_decoder_layers is given\ndefault on cpu-1: 1 device as one device, default rules\n"));
  EXPECT_THAT(done.out, HasSubstr("\ncompleted step: 0, seconds: "));
  EXPECT_THAT(done.out, HasSubstr("\ncompleted step: 1, seconds: "));
  const std::string path = folder.path() + "/r/metrics.jsonl";
  EXPECT_THAT(done.out, HasSubstr("Metrics: " + path + "\n"));
  const std::vector<std::string> lines = split(test::read_text(path), '\n');
  ASSERT_EQ(lines.size(), 5u) << "the run, two steps and its end, each with the line's end";
  EXPECT_EQ(nlohmann::json::parse(lines[0])["run"]["settings"]["steps"], "2");
  for (std::size_t step = 0; step < 2; ++step) {
    const auto json = nlohmann::json::parse(lines[step + 1]);
    EXPECT_EQ(json["step"], step);
    EXPECT_GT(json["loss"], 0);
  }
}

TEST(TrainCommand, RefusesWordsThatAreNoRequest) {
  EXPECT_EQ(outcome("train mixtral").err,
            "moesh: error: the command line: 'mixtral' is neither a FILE.yml nor key=value\n");
}

TEST(TrainCommand, SaysWhichMetricsCannotBeWritten) {
  EXPECT_EQ(outcome(kTinyTrained + "/dev/null").err,
            "moesh: error: /dev/null/r: the folder cannot be made: Not a directory\n"
            "  fix: choose base_output_directory or metrics_file\n");
  EXPECT_EQ(outcome(kTinyTrained + "unused metrics_file=/dev/full").err,
            "moesh: error: /dev/full: the metrics could not be written: No space left on device\n"
            "  fix: make room, or choose another metrics_file\n");
}

// What is refused once the model has been planned (data to evaluate on, where to go on from) leaves a run's metrics as they were, and
// does not say that lines follow.
TEST(TrainCommand, DoesNotBeginARunThatIsRefused) {
  const test::TemporaryFolder folder;
  ASSERT_EQ(outcome(kTinyTrained + folder.path()).code, 0);
  const std::string path = folder.path() + "/r/metrics.jsonl", before = test::read_text(path);
  for (const std::string asked :
       {" eval_interval=1 dataset_type=text", " --from 3", " load_parameters_path=/nope", " load_full_state_path=/nope"}) {
    const Outcome refused = outcome(kTinyTrained + folder.path() + " enable_checkpointing=true" + asked);
    EXPECT_NE(refused.code, 0) << asked;
    EXPECT_THAT(refused.err, Not(HasSubstr("those of this one follow"))) << asked;
    EXPECT_EQ(test::read_text(path), before) << asked;
  }
}

}  // namespace
}  // namespace moesh::cli
