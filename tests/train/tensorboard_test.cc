// The event files that runs write for TensorBoard.
#include <cstdlib>
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/cli/outcome.h"
#include "tests/paths.h"
#include "tests/python.h"
#include "tests/train/trainer_support.h"

namespace moesh::train {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

constexpr const char* kLoggedExperts =
    "train model_name=mixtral-8x7b override_model_config=true base_num_decoder_layers=2 base_emb_dim=16 base_num_query_heads=2 "
    "base_num_kv_heads=1 head_dim=8 base_mlp_dim=24 base_moe_mlp_dim=24 vocab_size=64 max_target_length=16 num_experts=4 log_config=false "
    "per_device_batch_size=1 dataset_type=synthetic compile_topology=cpu-1 run_name=r enable_checkpointing=true checkpoint_period=1 ";

std::vector<std::string> event_files(const std::string& folder) {
  std::vector<std::string> files;
  if (!fs::exists(folder)) return files;
  for (const auto& entry : fs::directory_iterator(folder)) files.push_back(entry.path().string());
  return files;
}

TEST(TensorBoard, IsWrittenWhereARunHasAFolderUnlessItIsNotWanted) {
  const test::TemporaryFolder folder;
  const test::WorkingFolder here(folder.path());
  ASSERT_EQ(cli::outcome(kLoggedExperts + std::string("steps=2")).code, 0);
  const std::vector<std::string> files = event_files("moesh_output/r/tensorboard");
  ASSERT_EQ(files.size(), 1u);
  const std::string text = test::read_text(files.front());
  for (const char* tag : {"learning/loss", "learning/current_learning_rate", "perf/per_device_tokens_per_sec", "experts/tokens", "experts/load",
                          "num_model_parameters", "| num_experts | 4 |"})
    EXPECT_THAT(text, HasSubstr(tag));
  EXPECT_THAT(text, Not(HasSubstr("optim/step_skipped")));
  ASSERT_EQ(cli::outcome(kLoggedExperts + std::string("steps=2 run_name=q skip_step_on_spikes=true")).code, 0);
  EXPECT_THAT(test::read_text(event_files("moesh_output/q/tensorboard").front()), HasSubstr("optim/step_skipped"));
  ASSERT_EQ(cli::outcome(kLoggedExperts + std::string("steps=2 run_name=s enable_tensorboard=false")).code, 0);
  EXPECT_FALSE(fs::exists("moesh_output/s/tensorboard"));
  ASSERT_EQ(cli::outcome(kLoggedExperts + std::string("steps=2 enable_checkpointing=false metrics_file=m.jsonl run_name=t")).code, 0);
  EXPECT_FALSE(fs::exists("moesh_output/t"));
  ASSERT_EQ(cli::outcome(kLoggedExperts + std::string("steps=2 enable_checkpointing=false metrics_file=m.jsonl run_name=u enable_tensorboard=true")).code, 0);
  EXPECT_EQ(event_files("moesh_output/u/tensorboard").size(), 1u);
}

// A run that stops and resumes gives one curve.
TEST(TensorBoardSlow, ItsOwnReaderFindsTheCurves) {
  const std::optional<std::string> python = test::python_with("tensorboard");
  if (!python) GTEST_SKIP() << "no Python with tensorboard: MOESH_PYTHON names one";
  const test::TemporaryFolder folder;
  const test::WorkingFolder here(folder.path());
  ASSERT_EQ(cli::outcome(kLoggedExperts + std::string("steps=3 eval_interval=2 eval_steps=1")).code, 0);
  ASSERT_EQ(cli::outcome(kLoggedExperts + std::string("steps=5 eval_interval=2 eval_steps=1 --from 1")).code, 0);
  const std::string script = test::source_folder() / "tests/train/board_scalars.py";
  ASSERT_EQ(std::system((*python + " " + script + " moesh_output/r/tensorboard >said 2>errors").c_str()), 0) << test::read_text("errors");
  const std::string said = test::read_text("said");
  EXPECT_THAT(said, HasSubstr("learning/loss [0, 1, 2, 3, 4] "));
  EXPECT_THAT(said, HasSubstr("eval/avg_loss [0, 2, 4] "));
  EXPECT_THAT(said, HasSubstr("histograms experts/tokens\nimages experts/load\ntensors num_model_parameters settings\nimage 4 x 2\n"));
}

}  // namespace
}  // namespace moesh::train
