// What a run writes: only in its own folder, after what was there before, and never over files of others.
#include <filesystem>
#include <regex>
#include <set>
#include <thread>

#include <gmock/gmock.h>

#include "config/load.h"
#include "tests/train/train_support.h"
#include "tests/train/trainer_support.h"
#include "train/line_file.h"
#include "train/run_folder.h"

namespace moesh::train {
namespace {

using nlohmann::json;
using test::kTinyModel;
using test::Outcome;
using test::TemporaryFolder;
using test::train_with;
using ::testing::HasSubstr;

const std::string kOneStep = kTinyModel + "steps=1 enable_checkpointing=false ";

std::string folder_for(const std::string& request) {
  return make_run_folder(config::load(test::words_of(request)).settings);
}

TEST(RunFolder, LiesUnderTheBaseWithItsName) {
  const TemporaryFolder folder;
  const std::string base = "base_output_directory=" + folder.path();
  EXPECT_EQ(folder_for(base + " run_name=mine"), folder.path() + "/mine");
  EXPECT_EQ(folder_for(base + " run_name=a/../b/./c"), folder.path() + "/b/c");
  EXPECT_TRUE(std::filesystem::is_directory(folder.path() + "/b/c"));
}

TEST(RunFolder, IsNotOutsideTheBase) {
  const TemporaryFolder folder;
  const std::string base = folder.path() + "/base";
  for (const char* name : {"..", "../x", "a/../../x", "/tmp/x", ".", "a/..", "../../../../../etc"}) {
    const Outcome outcome = train_with(kOneStep + "base_output_directory=" + base + " run_name=" + name);
    EXPECT_EQ(outcome.code, 2) << name;
    EXPECT_EQ(outcome.err,
              fmt::format("moesh: error: the command line: run_name={} is no folder below base_output_directory\n"
                          "  fix: a plain name, and where it lies in base_output_directory\n",
                          name));
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(RunFolder, SaysWhyItCannotBeMade) {
  const TemporaryFolder folder;
  const std::string file = folder.write("file", "x");
  EXPECT_EQ(
      test::message_of([&] { folder_for("run_name=a base_output_directory=" + file); }),
      file + "/a: the folder cannot be made: Not a directory\n  fix: choose base_output_directory or metrics_file");
  EXPECT_THAT(test::message_of([&] { folder_for("base_output_directory=" + file); }), HasSubstr("cannot be made"));
  EXPECT_THAT(test::message_of(
                  [&] { folder_for("base_output_directory=" + folder.path() + " run_name=" + std::string(300, 'x')); }),
              HasSubstr("the folder cannot be made: File name too long"));
}

// Eight folders are requested at once, within a second.
TEST(RunFolder, WithoutANameIsOneThatNoOtherRunHas) {
  const TemporaryFolder folder;
  std::vector<std::string> made(8);
  {
    std::vector<std::jthread> threads;
    for (std::string& name : made) {
      threads.emplace_back([&] { name = folder_for("base_output_directory=" + folder.path()); });
    }
  }
  EXPECT_EQ(std::set(made.begin(), made.end()).size(), made.size());
  const std::regex expected(R"(.*/default_\d{4}-\d\d-\d\d-\d\d-\d\d-\d\d(-\d)?)");
  for (const std::string& name : made) EXPECT_TRUE(std::regex_match(name, expected)) << name;
}

TEST(RunFolder, OfAModelThatIsAFileBearsTheFilesName) {
  const TemporaryFolder folder;
  const std::string model = folder.write("mine.yml", "base_emb_dim: 64\n");
  EXPECT_THAT(folder_for("model_name=" + model + " base_output_directory=" + folder.path()),
              HasSubstr(folder.path() + "/mine_2"));
}

TEST(RunFolder, IsHereWhereTheBaseIsRemote) {
  const TemporaryFolder folder;
  const test::WorkingFolder here(folder.path());
  const Outcome outcome = train_with(kOneStep + "run_name=a base_output_directory=gs://bucket/runs");
  EXPECT_THAT(outcome.err, HasSubstr("gs://bucket/runs cannot be written from here; moesh_output is used"));
  EXPECT_EQ(test::metrics_in("moesh_output/a/metrics.jsonl").size(), 1u);
}

TEST(RunFolder, HoldsNoRunThatWasRefused) {
  const TemporaryFolder folder;
  const std::string request = kOneStep + "run_name=mine base_output_directory=" + folder.path();
  for (const char* refused : {" load_parameters_path=/nonexistent", " load_full_state_path=/nonexistent",
                              " eval_interval=1 dataset_type=text dataset_path=/etc/hostname"}) {
    EXPECT_EQ(train_with(request + refused).code, 2) << refused;
    EXPECT_FALSE(std::filesystem::exists(folder.path() + "/mine/metrics.jsonl")) << refused;
  }
  EXPECT_EQ(train_with(request).err, "");
}

// Each run begins with a line that lists its settings.
TEST(RunFolder, OfTheSameNameKeepsTheStepsOfEarlierRuns) {
  const TemporaryFolder folder;
  const std::string request = kOneStep + "run_name=mine base_output_directory=" + folder.path();
  const std::string path = folder.path() + "/mine/metrics.jsonl";
  EXPECT_EQ(train_with(request).err, "");
  const std::string before = test::read_text(path);
  EXPECT_EQ(train_with(request + " steps=2 learning_rate=0.5").err,
            "moesh: note: " + path + " has lines of earlier runs; those of this one follow\n");
  EXPECT_THAT(test::read_text(path), ::testing::StartsWith(before));
  const std::vector<json> lines = test::json_lines_in(path);
  ASSERT_EQ(lines.size(), 7u);
  EXPECT_FALSE(lines[0]["run"]["settings"].contains("learning_rate"));
  EXPECT_TRUE(lines[2]["run"].contains("ended"));
  EXPECT_EQ(lines[3]["run"]["settings"]["learning_rate"], "0.5");
  EXPECT_TRUE(std::regex_match(lines[3]["run"]["began"].get<std::string>(),
                               std::regex(R"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[+-]\d{4})")));
  EXPECT_EQ(lines[5]["step"], 1);
}

// A file of the user that is named as metrics_file, here the data set, is not overwritten.
TEST(RunFolder, IsNotWrittenOverFilesOfTheUser) {
  const TemporaryFolder folder;
  const std::string text = "what took long to write\n";
  const std::string data = folder.write("data.txt", text);
  const Outcome outcome =
      train_with(kOneStep + "vocab_size=256 dataset_type=text dataset_path=" + data + " metrics_file=" + data);
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.err, HasSubstr(data + ": the file holds something else than metrics of moesh"));
  EXPECT_EQ(test::read_text(data), text);
}

TEST(RunFolder, BelongsToOneRunAtATime) {
  const TemporaryFolder folder;
  const std::string request = kOneStep + "run_name=mine base_output_directory=" + folder.path();
  train_with(request);
  const std::string path = folder.path() + "/mine/metrics.jsonl";
  const std::string before = test::read_text(path);
  const LineFile other(path, "{\"run\": ");
  const Outcome outcome = train_with(request);
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.err, HasSubstr(path + ": another run is writing this file"));
  EXPECT_EQ(test::read_text(path), before);
}

// The access token of a loader that moesh does not have must not be written to the metrics.
TEST(RunFolder, HoldsNoSettingsThatMoeshDoesNotUse) {
  const TemporaryFolder folder;
  train_with(kOneStep + "hf_access_token=secret metrics_file=" + folder.path() + "/m.jsonl");
  EXPECT_THAT(test::read_text(folder.path() + "/m.jsonl"), ::testing::Not(HasSubstr("secret")));
}

// Output and metrics would overwrite each other.
TEST(RunFolder, IsNotTheFileOfTheOutput) {
  const TemporaryFolder folder;
  const std::string out = folder.path() + "/out";
  for (const char* stream : {"/dev/stdout", "/dev/stderr"}) {
    const std::string command =
        fmt::format("{} train {} metrics_file={} >{} 2>&1", test::binary(), kOneStep, stream, out);
    EXPECT_EQ(std::system(command.c_str()) >> 8, 2);
    EXPECT_THAT(test::read_text(out), HasSubstr("the file is the one that the output goes to"));
  }
  const std::string piped =
      fmt::format("{} train {} metrics_file=/dev/stdout | grep -c step", test::binary(), kOneStep);
  EXPECT_EQ(std::system((piped + " >" + out).c_str()) >> 8, 0) << "a pipe takes both";
}

}  // namespace
}  // namespace moesh::train
