// `moesh verify` as a whole command, on a recorded run and on damaged copies of it.
#include <filesystem>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/cli/outcome.h"
#include "tests/paths.h"
#include "tests/store/safetensors_support.h"

namespace moesh::cli {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;

const std::string kRecordedLlama = test::source_folder() / "tests/golden/models/llama";

TEST(VerifyCommand, FindsTheRecordedCurve) {
  const Outcome done = outcome("verify " + kRecordedLlama);
  EXPECT_EQ(done.code, 0) << done.out;
  EXPECT_THAT(done.out, HasSubstr("all that was compared is as recorded.\n"));
}

TEST(VerifyCommand, ReturnsOneAndSaysWhereWhenSomethingIsOff) {
  const Outcome off = outcome("verify --json " + kRecordedLlama + " learning_rate=0.002");
  EXPECT_EQ(off.code, 1);
  const auto verdict = nlohmann::json::parse(off.out)[0];
  EXPECT_EQ(verdict["quantity"], "loss");
  EXPECT_FALSE(verdict["passes"]);
  EXPECT_GT(verdict["error"], verdict["tolerance"]);
}

TEST(VerifyCommand, NeedsARun) {
  EXPECT_EQ(outcome("verify").err,
            "moesh: error: the command line: no run is named\n  fix: moesh verify PATH... [key=value ...]\n");
}

TEST(VerifyCommand, RefusesWhatHasNoEffect) {
  const std::string golden = (test::source_folder() / "tests/golden").string(), tokenizer = golden + "/tokenizers/wordlevel";
  for (const std::string& path : {golden + "/hf/llama", tokenizer}) {
    EXPECT_THAT(outcome("verify " + path + " --first 3").err,
                HasSubstr("--first has no effect on recorded tokenizers and Hugging Face folders, which have no steps"));
  }
  EXPECT_THAT(outcome("verify " + tokenizer + " vocab_size=3").err, HasSubstr("vocab_size=3 has no effect on a recorded tokenizer"));
}

TEST(VerifyCommand, HoldsALayoutAgainstOneDevice) {
  const std::string layout = "verify --against-one-device base_num_decoder_layers=1 base_emb_dim=16 base_mlp_dim=32 "
                             "base_num_query_heads=2 base_num_kv_heads=2 head_dim=8 vocab_size=256 max_target_length=16 "
                             "per_device_batch_size=0.5 dataset_type=synthetic dtype=float32 steps=2 compile_topology=cpu-4 "
                             "ici_fsdp_parallelism=2 ici_tensor_parallelism=2";
  const Outcome held = outcome(layout);
  EXPECT_EQ(held.code, 0) << held.out << held.err;
  EXPECT_THAT(held.out, HasSubstr("parameters after 2 steps"));
  EXPECT_THAT(held.out, EndsWith("all as on one device.\n"));
  EXPECT_THAT(outcome(layout + " " + kRecordedLlama).err, HasSubstr("a recorded run, '" + kRecordedLlama + "', beside --against-one-device"));
}

TEST(VerifyCommand, RefusesToCompareNoSteps) {
  const Outcome refused = outcome("verify --against-one-device base_num_decoder_layers=1 dataset_type=synthetic steps=0 compile_topology=cpu-2");
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.err, HasSubstr("steps=0 leaves nothing to compare"));
}

Outcome expect_as_on_one_device(const std::string& request) {
  const Outcome held = outcome("verify --against-one-device dataset_type=synthetic dtype=float32 " + request);
  EXPECT_EQ(held.code, 0) << held.out << held.err;
  EXPECT_THAT(held.out, EndsWith("all as on one device.\n"));
  return held;
}

constexpr const char* kTinyOnTwo =
    "base_num_decoder_layers=1 base_emb_dim=16 base_mlp_dim=32 base_num_query_heads=2 base_num_kv_heads=2 head_dim=8 vocab_size=256 "
    "max_target_length=16 per_device_batch_size=1 compile_topology=cpu-2 ici_fsdp_parallelism=2 ";

TEST(VerifyCommand, HoldsALayoutWithMicrobatchesAgainstOneDevice) {
  expect_as_on_one_device(std::string(kTinyOnTwo) + "steps=2 gradient_accumulation_steps=3");
}

TEST(VerifyCommand, HoldsALayoutOfSeveralOwnersAgainstOneDevice) { expect_as_on_one_device(std::string(kTinyOnTwo) + "steps=1 owners=2"); }

// Softmax cancels the biases of keys, so their gradients are rounding errors, of which Adam makes whole steps.
TEST(VerifyCommand, TakesNoStepsOfRoundingErrorsForADifference) {
  const Outcome held = expect_as_on_one_device(
      "decoder_block=gpt_oss base_num_decoder_layers=2 num_experts=8 num_experts_per_tok=2 base_emb_dim=64 base_mlp_dim=32 "
      "base_num_query_heads=8 base_num_kv_heads=4 head_dim=16 sliding_window_size=16 attention_bias=true vocab_size=128 "
      "max_target_length=32 per_device_batch_size=2 steps=2 compile_topology=cpu-8 ici_fsdp_parallelism=2 ici_expert_parallelism=2 "
      "mlp_activations=[sigmoid,linear] mlp_activations_limit=7 ici_tensor_parallelism=2 learning_rate=0.01 use_ring_of_experts=true");
  EXPECT_EQ(held.err, "");  // the run on one device, whose experts need no ring, says nothing of its own
}

TEST(VerifyCommand, RefusesAResultOfAnotherShape) {
  const test::TemporaryFolder folder;
  for (const char* name : {"curve.json", "batch.safetensors", "params.safetensors"}) {
    std::filesystem::create_symlink(kRecordedLlama + "/" + name, folder.path() + "/" + name);
  }
  auto config = nlohmann::json::parse(test::read_text(kRecordedLlama + "/config.json"));
  config.erase("tensors");
  folder.write("config.json", config.dump());
  folder.write(
      "expect.safetensors",
      test::safetensors(R"({"grad.token_embedder.embedding":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})",
                        std::string(4, '\0')));
  EXPECT_THAT(outcome("verify " + folder.path()).err,
              EndsWith("moesh: error: token_embedder/embedding: shape [256, 64], the run recorded [1]\n"));
}

TEST(VerifyCommand, RefusesParametersOfAnotherShape) {
  EXPECT_THAT(outcome("verify " + kRecordedLlama + " base_mlp_dim=64").err,
              HasSubstr("decoder/layers/mlp/wi_0/kernel: shape [64, 3, 128], [64, 3, 64] was expected"));
}

}  // namespace
}  // namespace moesh::cli
