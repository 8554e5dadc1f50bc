// Recorded runs: what the folder of a run describes, and what it must contain.
#include <gmock/gmock.h>

#include "tests/train/train_support.h"
#include "train/reference_run.h"

namespace moesh::train {
namespace {

using nlohmann::json;
using test::message_of;
using test::RunCopy;
using ::testing::Contains;
using ::testing::HasSubstr;

TEST(ReferenceRun, IsWhatItsFolderSays) {
  const ReferenceRun run = read_reference_run((test::kRecordedRuns / "mixtral-ga2").string() + "//");
  EXPECT_EQ(run.name, "mixtral-ga2");
  EXPECT_EQ(run.request.front(), "model_name=mixtral-8x7b");
  EXPECT_THAT(run.request, Contains("gradient_accumulation_steps=2"));
  EXPECT_THAT(run.request, Contains("sparse_matmul=false"));
  EXPECT_THAT(run.request, Contains("jax_cache_dir="));
  EXPECT_EQ(run.devices, 1);
  ASSERT_EQ(run.curve.size(), 20u);
  EXPECT_EQ(run.curve[19].step, 19);
  EXPECT_NEAR(run.curve[0].loss, 6.104, 0.001);
  EXPECT_GT(run.curve[0].raw_grad_norm, 0);
  EXPECT_TRUE(run.batch.has("inputs"));
  EXPECT_TRUE(run.kept.empty());
}

TEST(ReferenceRun, TakesParametersFromItselfOrFromTheRunItNames) {
  EXPECT_THAT(read_reference_run((test::kRecordedRuns / "mixtral-lb").string()).parameters.path,
              HasSubstr("/mixtral/params"));
  EXPECT_THAT(read_reference_run((test::kRecordedRuns / "llama").string()).parameters.path, HasSubstr("/llama/params"));
}

TEST(ReferenceRun, RefusesDeepNestingWithoutRunningOutOfStack) {
  const RunCopy copy("mixtral-sparse");
  test::write_file(copy.path() + "/config.json", R"({"model_name": "default", "set": {"steps": )" + std::string(1'000'000, '[') +
                                                     std::string(1'000'000, ']') + "}}");
  EXPECT_EQ(message_of([&] { read_reference_run(copy.path()); }),
            copy.path() + "/config.json: values nested more than 64 deep");
}

TEST(ReferenceRun, SpellsPathsWithDots) { EXPECT_EQ(dotted("decoder/layers/wo"), "decoder.layers.wo"); }

template <typename Change>
std::string run_refusal(const std::string& file, Change change) {
  const RunCopy copy("mixtral-sparse");
  copy.change_json(file, change);
  return message_of([&] { read_reference_run(copy.path()); });
}

TEST(ReferenceRun, IsRefusedWithoutWhatDescribesIt) {
  EXPECT_THAT(run_refusal("config.json", [](json& config) { config.erase("model_name"); }),
              HasSubstr("config.json: 'model_name' is missing"));
  EXPECT_THAT(run_refusal("config.json", [](json& config) { config.erase("devices"); }), HasSubstr("'devices' is missing"));
  EXPECT_THAT(run_refusal("config.json", [](json& config) { config["devices"] = "one"; }),
              HasSubstr("'devices' is \"one\", which is not of the type expected"));
  EXPECT_THAT(run_refusal("config.json", [](json& config) { config = json::array(); }),
              HasSubstr("'model_name' is missing"));
  EXPECT_THAT(run_refusal("curve.json", [](json& curve) { curve = json::array(); }),
              HasSubstr("a list of steps was expected"));
  EXPECT_THAT(run_refusal("curve.json", [](json& curve) { curve = json::object(); }),
              HasSubstr("a list of steps was expected"));
  EXPECT_THAT(run_refusal("curve.json", [](json& curve) { curve[3].erase("loss"); }),
              HasSubstr("curve.json: 'loss' is missing"));
}

TEST(ReferenceRun, IsRefusedWhenAFileIsMissingOrNotJson) {
  const test::TemporaryFolder folder;
  EXPECT_THAT(message_of([&] { read_reference_run(folder.path()); }),
              HasSubstr("/config.json: the description of a run cannot be read: No such file or directory"));
  folder.write("config.json", "{");
  EXPECT_THAT(message_of([&] { read_reference_run(folder.path()); }), HasSubstr("/config.json: not readable as JSON"));
  const RunCopy copy("mixtral-sparse");
  std::filesystem::remove(copy.path() + "/params.safetensors");
  EXPECT_THAT(message_of([&] { read_reference_run(copy.path()); }),
              HasSubstr("/mixtral/params.safetensors: the safetensors file cannot be read: No such file or directory"));
}

// The file is sparse, so it takes no disk space.
TEST(ReferenceRun, IsRefusedWhenItsDescriptionIsHuge) {
  const test::TemporaryFolder folder;
  std::filesystem::resize_file(folder.write("config.json", "{}"), (64u << 20) + 1);
  EXPECT_THAT(message_of([&] { read_reference_run(folder.path()); }),
              HasSubstr("the description of a run has 67,108,865 bytes, at most 67,108,864 are read"));
}

TEST(ReferenceRun, OfThisRepositorySaysWhichTensorsItKept) {
  for (const auto& entry : std::filesystem::directory_iterator(test::kRecordedRuns)) {
    if (!entry.is_directory()) continue;
    const auto config = json::parse(test::read_text(entry.path() / "config.json"));
    ASSERT_TRUE(config.contains("tensors")) << entry.path();
    EXPECT_EQ(config["tensors"].get<std::set<std::string>>(), read_reference_run(entry.path().string()).kept) << entry.path();
  }
}

}  // namespace
}  // namespace moesh::train
