// `moesh checkpoint`: lists, checks, compares and removes checkpoints.
#include <filesystem>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "tests/cli/outcome.h"
#include "tests/train/train_support.h"
#include "tests/train/trainer_support.h"

namespace moesh::cli {
namespace {

using Json = nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class CheckpointCommand : public ::testing::Test {
 protected:
  CheckpointCommand() {
    const Outcome made = test::train_with(test::kTinyModel + "enable_checkpointing=true checkpoint_period=2 steps=4 log_config=false run_name=r base_output_directory=" +
                                          folder_.path());
    EXPECT_EQ(made.code, 0) << made.err;
  }
  std::string run() const { return folder_.path() + "/r"; }
  std::string at(int step) const { return fmt::format("{}/checkpoints/{}", run(), step); }
  void damage(int step) const {
    const std::string path = at(step) + "/data-00000.safetensors";
    std::string bytes = test::read_text(path);
    bytes.back() = static_cast<char>(bytes.back() ^ 1);
    test::write_file(path, bytes);
  }

  test::TemporaryFolder folder_;
};

TEST_F(CheckpointCommand, ListsThoseOfARunTheNewestFirst) {
  const Outcome listed = outcome_of({"checkpoint", "ls", run(), "--json"});
  EXPECT_EQ(listed.code, 0);
  const Json all = Json::parse(listed.out);
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[0]["step"], 3);
  EXPECT_EQ(all[2]["step"], 0);
  EXPECT_EQ(all[0]["parameters"], 2916);
  test::write_file(at(3) + "/index.json", "{}");
  EXPECT_THAT(outcome_of({"checkpoint", "ls", run()}).out, AllOf(HasSubstr("cut short, damaged"), HasSubstr(at(2)), HasSubstr("2,916")));
}

TEST_F(CheckpointCommand, ShowsWhatIsInOne) {
  const Outcome shown = outcome_of({"checkpoint", "show", run()});
  EXPECT_THAT(shown.out, AllOf(HasSubstr(at(3) + ": after step 3"), HasSubstr("2,916 parameters, optimizer adamw"), HasSubstr("  steps: 4\n"),
                               HasSubstr("mu/token_embedder/embedding")));
  const Json filtered = Json::parse(outcome_of({"checkpoint", "show", at(0), "--filter", "nu/", "--json"}).out);
  EXPECT_EQ(filtered["step"], 0);
  for (const Json& tensor : filtered["tensors"]) EXPECT_THAT(tensor["name"].get<std::string>(), HasSubstr("nu/"));
}

TEST_F(CheckpointCommand, ChecksEveryByte) {
  const Outcome whole = outcome_of({"checkpoint", "check", run()});
  EXPECT_EQ(whole.code, 0);
  EXPECT_THAT(whole.out, AllOf(HasSubstr(at(0) + ": whole, "), HasSubstr(at(3) + ": whole, ")));
  damage(2);
  const Outcome damaged = outcome_of({"checkpoint", "check", run()});
  EXPECT_EQ(damaged.code, 1);
  EXPECT_THAT(damaged.out, AllOf(HasSubstr(at(2) + ": DAMAGED\n"), HasSubstr(" is damaged: the hash of bytes "), HasSubstr(at(3) + ": whole, ")));
}

TEST_F(CheckpointCommand, TellsWhatDiffers) {
  EXPECT_EQ(outcome_of({"checkpoint", "diff", at(0), at(0)}).out, "the same\n");
  const Outcome differs = outcome_of({"checkpoint", "diff", at(0), at(3)});
  EXPECT_EQ(differs.code, 1);
  EXPECT_THAT(differs.out, AllOf(HasSubstr("(step)"), HasSubstr("nu/token_embedder/embedding"), HasSubstr(" relative, "), Not(HasSubstr("vocab_size"))));
  const Json all = Json::parse(outcome_of({"checkpoint", "diff", at(0), at(3), "--json"}).out);
  EXPECT_EQ(all[0]["kind"], "setting");
}

TEST_F(CheckpointCommand, RemovesTheOldest) {
  EXPECT_EQ(outcome_of({"checkpoint", "rm", run(), "--keep", "2"}).out, "1 checkpoint removed, 2 left\n");
  EXPECT_FALSE(std::filesystem::exists(at(0)));
  EXPECT_THAT(outcome_of({"checkpoint", "rm", run()}).err, HasSubstr("how many are to stay?"));
  EXPECT_THAT(outcome_of({"checkpoint", "rm", run(), "--keep", "0"}).err, HasSubstr("--keep 0: not a number from 1 to "));
}

// A damaged one is of no use to a run that goes on, so it does not take the place of one that is.
TEST_F(CheckpointCommand, RemovesNoneForTheSakeOfADamagedOne) {
  damage(3);
  const Outcome removed = outcome_of({"checkpoint", "rm", run(), "--keep", "1"});
  EXPECT_EQ(removed.out, "1 checkpoint removed, 2 left\n");
  EXPECT_THAT(removed.err, AllOf(HasSubstr(at(3) + ": DAMAGED, so an older one stays in its place: "), HasSubstr("is damaged: the hash of bytes ")));
  for (const int step : {2, 3}) EXPECT_TRUE(std::filesystem::exists(at(step))) << step;
  damage(2);
  EXPECT_EQ(outcome_of({"checkpoint", "rm", run(), "--keep", "1"}).out, "0 checkpoints removed, 2 left\n") << "none is whole";
}

TEST_F(CheckpointCommand, SaysWhatItWouldTake) {
  EXPECT_THAT(outcome_of({"checkpoint"}).err, HasSubstr("'': ls, show, check, diff or rm was expected"));
  EXPECT_THAT(outcome_of({"checkpoint", "ls"}).err, HasSubstr("0 paths for 'ls', one was expected"));
  EXPECT_THAT(outcome_of({"checkpoint", "diff", at(0)}).err, HasSubstr("1 path for 'diff', two were expected"));
  EXPECT_THAT(outcome_of({"checkpoint", "show", "steps=3"}).err, HasSubstr("'steps=3' is no path"));
  EXPECT_THAT(outcome_of({"checkpoint", "ls", "/nowhere"}).err, HasSubstr("no checkpoint is there"));
}

}  // namespace
}  // namespace moesh::cli
