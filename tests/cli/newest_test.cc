// Commands that read the parameters of a run whose newest checkpoint is damaged.
#include <filesystem>
#include <functional>

#include <gmock/gmock.h>

#include "tests/paths.h"
#include "tests/train/train_support.h"

namespace moesh::cli {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

void flip_a_bit(const std::string& path) {
  std::string bytes = test::read_text(path);
  bytes[bytes.size() - 10] = static_cast<char>(bytes[bytes.size() - 10] ^ 4);
  test::write_file(path, bytes);
}

TEST(DamagedNewest, GivesWayToTheOneBeforeInDecodingAndConverting) {
  const test::TemporaryFolder folder;
  const test::WorkingFolder here(folder.path());
  const std::string llama = (test::source_folder() / "tests/golden/hf/llama").string();
  fs::create_directories("r/checkpoints");
  ASSERT_EQ(outcome_of({"convert", llama, "r/checkpoints/1"}).err, "");
  const auto decoded = [](const std::string& path) {
    return outcome_of({"decode", path, "abc", "tokenizer_path=", "dtype=float32", "--max-tokens", "5"});
  };
  const Outcome undamaged = decoded("r/checkpoints/1");
  ASSERT_EQ(undamaged.code, 0) << undamaged.err;
  ASSERT_EQ(outcome_of({"convert", "r/checkpoints/1", "expected"}).err, "");
  const std::string data = "r/checkpoints/2/data-00000.safetensors", index = "r/checkpoints/2/index.json";
  for (const std::function<void()>& damage : std::vector<std::function<void()>>{
           [&] { fs::remove(index); }, [&] { flip_a_bit(index); }, [&] { fs::remove(data); }, [&] { flip_a_bit(data); }}) {
    fs::remove_all("r/checkpoints/2");
    fs::copy("r/checkpoints/1", "r/checkpoints/2", fs::copy_options::recursive);
    damage();
    const Outcome made = decoded("r");
    EXPECT_EQ(made.code, 0) << made.err;
    EXPECT_EQ(made.out, undamaged.out);
    EXPECT_THAT(made.err, AllOf(HasSubstr("r/checkpoints/2"), HasSubstr("the checkpoint before it is taken"),
                                HasSubstr("the parameters of step 0 from r/checkpoints/1")));
    const Outcome converted = outcome_of({"convert", "r", "there"});
    EXPECT_EQ(converted.code, 0) << converted.err;
    EXPECT_THAT(converted.err, HasSubstr("the checkpoint before it is taken"));
    for (const char* name : {"config.json", "model.safetensors"})
      EXPECT_EQ(test::read_text(std::string("there/") + name), test::read_text(std::string("expected/") + name)) << name;
    EXPECT_EQ(std::distance(fs::directory_iterator("."), {}), 3) << "r, expected and there";
    fs::remove_all("there");
  }
  EXPECT_EQ(decoded("r/checkpoints/2").code, 2) << "one that is named itself";
}

}  // namespace
}  // namespace moesh::cli
