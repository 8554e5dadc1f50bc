// Commands that read the parameters of a run whose newest checkpoint is damaged.
#include <filesystem>
#include <functional>

#include <gmock/gmock.h>

#include "tests/paths.h"
#include "tests/train/train_support.h"
#include "tests/train/trainer_support.h"

namespace moesh::cli {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

// In each tensor of a file of data, whose header is far shorter than the first quarter.
void flip_bits(const std::string& path) {
  std::string bytes = test::read_text(path);
  for (std::size_t at = bytes.size() / 4; at < bytes.size(); at += 32) bytes[at] = static_cast<char>(bytes[at] ^ 4);
  test::write_file(path, bytes);
}

// Calls `check` once the checkpoint has lost its index, has a damaged one, has lost its data, and has damaged ones.
void with_each_damage(const std::string& checkpoint, const std::function<void()>& check) {
  const std::string whole = checkpoint + ".whole", data = checkpoint + "/data-00000.safetensors", index = checkpoint + "/index.json";
  fs::rename(checkpoint, whole);
  for (const std::function<void()>& damage : std::vector<std::function<void()>>{
           [&] { fs::remove(index); }, [&] { flip_bits(index); }, [&] { fs::remove(data); }, [&] { flip_bits(data); }}) {
    fs::remove_all(checkpoint);
    fs::copy(whole, checkpoint, fs::copy_options::recursive);
    damage();
    check();
  }
}

TEST(DamagedNewest, GivesWayToTheOneBeforeInDecoding) {
  const test::TemporaryFolder folder;
  const std::string run = folder.path() + "/r", before = run + "/checkpoints/0", newest = run + "/checkpoints/1";
  const Outcome trained = test::train_with(test::kTinyMixtral + "vocab_size=256 enable_checkpointing=true checkpoint_period=1 steps=2 " +
                                           "max_target_length=16 run_name=r base_output_directory=" + folder.path());
  ASSERT_EQ(trained.code, 0) << trained.err;
  const auto decoded = [](const std::string& path) { return outcome_of({"decode", path, "abc", "--max-tokens", "5"}); };
  const Outcome expected = decoded(before);
  ASSERT_EQ(expected.code, 0) << expected.err;
  with_each_damage(newest, [&] {
    const Outcome made = decoded(run);
    EXPECT_EQ(made.code, 0) << made.err;
    EXPECT_EQ(made.out, expected.out);
    EXPECT_THAT(made.err, AllOf(HasSubstr(newest), HasSubstr("the checkpoint before it is taken"),
                                HasSubstr("the parameters of step 0 from " + before)));
  });
  EXPECT_EQ(decoded(newest).code, 2) << "one that is named itself";
}

TEST(DamagedNewest, GivesWayToTheOneBeforeInConverting) {
  const test::TemporaryFolder folder;
  const test::WorkingFolder here(folder.path());
  const std::string llama = (test::source_folder() / "tests/golden/hf/llama").string();
  fs::create_directories("r/checkpoints");
  for (const char* step : {"1", "2"}) ASSERT_EQ(outcome_of({"convert", llama, std::string("r/checkpoints/") + step}).err, "");
  ASSERT_EQ(outcome_of({"convert", "r/checkpoints/1", "expected"}).err, "");
  with_each_damage("r/checkpoints/2", [] {
    const Outcome converted = outcome_of({"convert", "r", "there"});
    EXPECT_EQ(converted.code, 0) << converted.err;
    EXPECT_THAT(converted.err, AllOf(HasSubstr("r/checkpoints/2"), HasSubstr("the checkpoint before it is taken")));
    for (const char* name : {"config.json", "model.safetensors"})
      EXPECT_EQ(test::read_text(std::string("there/") + name), test::read_text(std::string("expected/") + name)) << name;
    EXPECT_EQ(std::distance(fs::directory_iterator("."), {}), 3) << "r, expected and there";
    fs::remove_all("there");
  });
}

}  // namespace
}  // namespace moesh::cli
