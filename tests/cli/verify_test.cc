// `moesh verify` as a whole, on a recorded run and on damaged copies of it.
#include <filesystem>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/cli/outcome.h"
#include "tests/train/safetensors_support.h"

namespace moesh::cli {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;

const std::string kRecorded = MOESH_SOURCE_DIR "/tests/golden/models/llama";

TEST(VerifyCommand, FindsTheRecordedCurve) {
  const Outcome done = outcome("verify " + kRecorded);
  EXPECT_EQ(done.code, 0) << done.out;
  EXPECT_THAT(done.out, HasSubstr("all as recorded.\n"));
}

TEST(VerifyCommand, ReturnsOneAndSaysWhereWhenSomethingIsOff) {
  const Outcome off = outcome("verify --json " + kRecorded + " learning_rate=0.002");
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

TEST(VerifyCommand, RefusesAResultOfAnotherShape) {
  const test::TemporaryFolder folder;
  for (const char* name : {"config.json", "curve.json", "batch.safetensors", "params.safetensors"}) {
    std::filesystem::create_symlink(kRecorded + "/" + name, folder.path() + "/" + name);
  }
  folder.write(
      "expect.safetensors",
      test::safetensors(R"({"grad.token_embedder.embedding":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})",
                        std::string(4, '\0')));
  EXPECT_THAT(outcome("verify " + folder.path()).err,
              EndsWith("moesh: error: token_embedder/embedding: shape [256, 64], the run recorded [1]\n"));
}

TEST(VerifyCommand, RefusesParametersOfAnotherShape) {
  EXPECT_THAT(outcome("verify " + kRecorded + " base_mlp_dim=64").err,
              HasSubstr("decoder/layers/mlp/wi_0/kernel: shape [64, 3, 128], [64, 3, 64] was expected"));
}

}  // namespace
}  // namespace moesh::cli
