// How commands answer the same request: commands that plan accept settings that only matter in a run, and
// runs refuse what they cannot do before anything starts.
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/cli/outcome.h"

namespace moesh::cli {
namespace {

using ::testing::HasSubstr;

const std::string kTinyRequest =
    " base_num_decoder_layers=2 base_emb_dim=16 base_mlp_dim=32 base_num_query_heads=2 base_num_kv_heads=2 head_dim=8 "
    "vocab_size=64 max_target_length=16 per_device_batch_size=4 dataset_type=synthetic steps=1 ";

// Data, profilers and epochs that runs do not support change nothing about where tensors lie.
TEST(Requests, ThatOnlyARunCannotDoStopNoPlan) {
  const test::TemporaryFolder folder;
  for (const std::string key :
       {"dataset_type=grain", "dataset_type=hf",
        "profiler=nsys", "use_chat_template=true", "num_epoch=3"}) {
    const std::string name = key.substr(0, key.find('='));
    for (const char* command : {"shardings", "lint", "graph", "why token_embedder/embedding"}) {
      EXPECT_EQ(outcome(command + kTinyRequest + key).code, 0) << command << " " << key;
    }
    const Outcome run = outcome("train" + kTinyRequest + key + " base_output_directory=" + folder.path());
    EXPECT_EQ(run.code, 2) << key;
    EXPECT_EQ(run.out, "") << key;
    EXPECT_THAT(run.err, HasSubstr(name)) << key;
  }
}

TEST(Requests, ForPipelineStagesAreLaidOutAndNotRun) {
  const std::string stages = kTinyRequest + "ici_fsdp_parallelism=1 ici_pipeline_parallelism=2";
  const std::string refusal =
      "moesh: error: the command line: pipeline stages are laid out (`shardings`, `lint`), but neither planned nor run yet\n"
      "  fix: ici_pipeline_parallelism=1 dcn_pipeline_parallelism=1, and another axis for these devices\n";
  EXPECT_EQ(outcome("shardings" + stages).code, 0);
  for (const char* command : {"train", "verify --against-one-device"}) {
    const Outcome run = outcome(command + stages);
    EXPECT_EQ(run.code, 2) << command;
    EXPECT_EQ(run.out, "") << command;
    EXPECT_THAT(run.err, HasSubstr(refusal)) << command;
  }
  EXPECT_THAT(outcome("train" + kTinyRequest + "dcn_data_parallelism=1 dcn_pipeline_parallelism=2").err,
              HasSubstr("pipeline stages are laid out"));
}

TEST(Requests, MayHoldKeysOfEarlierVersionsThatSteerAKernel) {
  const Outcome planned =
      outcome("shardings" + kTinyRequest + "tile_batch_seq=128 wi_tile_fwd_buffer_count=3 wo_combine_scopes=true");
  EXPECT_EQ(planned.code, 0) << planned.err;
  EXPECT_EQ(planned.err,
            "moesh: note: without effect here (`moesh help KEY` says why): tile_batch_seq, wi_tile_fwd_buffer_count, "
            "wo_combine_scopes\n");
}

}  // namespace
}  // namespace moesh::cli
