// Recorded runs: where their parts are found, and what is said of those that are damaged.
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support.h"
#include "tests/train/safetensors_support.h"
#include "train/reference_run.h"

namespace moesh::train {
namespace {

using test::message_of;
using ::testing::HasSubstr;

const char* const kConfig = R"({"model_name": "llama2-7b", "devices": 1, "params_from": "other",
                                "set": {"steps": 3, "packing": false, "run_name": "x", "mu_dtype": null}})";
const char* const kCurve = R"([{"step": 0, "loss": 1.5, "lm_loss": 1, "moe_lb_loss": 0.5, "raw_grad_norm": 2,
                                "param_norm": 3}])";

// A run's folder in a folder of its own.
class Recorded {
 public:
  Recorded() {
    std::filesystem::create_directory(path());
    const std::string tensors = test::safetensors("{}", "");
    for (const char* name : {"params.safetensors", "batch.safetensors"}) write(name, tensors);
    write("config.json", kConfig);
    write("curve.json", kCurve);
  }

  std::string path() const { return folder_.path() + "/run"; }
  void write(const std::string& name, const std::string& text) const { folder_.write("run/" + name, text); }
  void remove(const std::string& name) const { std::filesystem::remove(path() + "/" + name); }
  std::string refusal() const {
    return message_of([&] { read_reference_run(path()); });
  }

 private:
  test::TemporaryFolder folder_;
};

TEST(ReferenceRun, GivesTheRequestAsWordsOfACommandLine) {
  const Recorded recorded;
  const ReferenceRun run = read_reference_run(recorded.path() + "//");
  EXPECT_EQ(run.name, "run");
  EXPECT_EQ(run.request, (std::vector<std::string>{"model_name=llama2-7b", "mu_dtype=null", "packing=false",
                                                   "run_name=x", "steps=3"}));
  EXPECT_FALSE(run.expect.has_value());
  ASSERT_EQ(run.curve.size(), 1u);
  EXPECT_EQ(run.curve[0].loss, 1.5);
}

TEST(ReferenceRun, TakesParametersFromTheRunThatItsConfigurationNames) {
  const Recorded recorded;
  recorded.remove("params.safetensors");
  EXPECT_EQ(recorded.refusal(), recorded.path().substr(0, recorded.path().size() - 3) +
                                    "other/params.safetensors: the file cannot be opened\n  fix: check the path");
}

TEST(ReferenceRun, RefusesAFolderThatLacksAFile) {
  const Recorded recorded;
  recorded.remove("curve.json");
  EXPECT_EQ(recorded.refusal(),
            recorded.path() + "/curve.json: no such file\n  fix: name the folder of a recorded run");
  recorded.remove("config.json");
  EXPECT_EQ(recorded.refusal(),
            recorded.path() + "/config.json: no such file\n  fix: name the folder of a recorded run");
}

TEST(ReferenceRun, RefusesFilesThatAreNoJson) {
  const Recorded recorded;
  recorded.write("config.json", "{");
  EXPECT_EQ(recorded.refusal(), recorded.path() + "/config.json: not readable as JSON");
  std::filesystem::resize_file(recorded.path() + "/config.json", 65u << 20);
  EXPECT_EQ(recorded.refusal(), recorded.path() + "/config.json: too large for the description of a run");
}

TEST(ReferenceRun, RefusesDeepNestingWithoutRunningOutOfStack) {
  const Recorded recorded;
  recorded.write("config.json", R"({"model_name": "default", "set": {"steps": )" + std::string(5'000'000, '[') +
                                    std::string(5'000'000, ']') + "}}");
  EXPECT_EQ(recorded.refusal(), recorded.path() + "/config.json: values nested more than 64 deep");
}

TEST(ReferenceRun, RefusesMembersThatAreMissingOrOfAnotherType) {
  const Recorded recorded;
  recorded.write("config.json", "[]");
  EXPECT_EQ(recorded.refusal(), recorded.path() + "/config.json: 'model_name' is missing");
  recorded.write("config.json", R"({"model_name": [")" + std::string(10'000, 'x') + "\"]}");
  EXPECT_EQ(recorded.refusal(), recorded.path() + "/config.json: 'model_name' is [\"" + std::string(57, 'x') +
                                    "…, which is not of the type expected");
}

TEST(ReferenceRun, RefusesACurveWithoutSteps) {
  const Recorded recorded;
  for (const char* curve : {"[]", "{}", "1"}) {
    recorded.write("curve.json", curve);
    EXPECT_EQ(recorded.refusal(), recorded.path() + "/curve.json: a list of steps was expected") << curve;
  }
  recorded.write("curve.json", R"([{"step": 0}])");
  EXPECT_THAT(recorded.refusal(), HasSubstr("'loss' is missing"));
}

}  // namespace
}  // namespace moesh::train
