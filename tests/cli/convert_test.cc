// What `moesh convert` makes of TO, the folder that it writes.
#include <filesystem>
#include <fstream>

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include "tests/cli/outcome.h"
#include "tests/paths.h"

namespace moesh::cli {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

const std::string kConverted = test::source_folder() / "tests/golden/hf/llama";

// Folders whose names a conversion might use for itself belong to the user, and stay as they are.
TEST(Convert, TouchesNothingThatIsThere) {
  const test::TemporaryFolder folder;
  const test::WorkingFolder here(folder.path());
  const std::string own = fmt::format("there.{}.part", ::getpid());
  for (const std::string& name : {std::string("there.old"), std::string("there.part"), own}) {
    fs::create_directory(name);
    std::ofstream(name + "/index.json") << "mine";
  }
  for (const std::string& how : {kConverted + " there --to hugging-face", kConverted + " there", std::string("source there")}) {
    EXPECT_EQ(outcome("convert " + how).err, "") << how;
    fs::remove_all("source");
    fs::rename("there", "source");
  }
  for (const std::string& name : {std::string("there.old"), std::string("there.part"), own}) {
    EXPECT_EQ(test::read_text(name + "/index.json"), "mine") << name;
  }
  EXPECT_EQ(std::distance(fs::directory_iterator("."), {}), 4) << "nothing else is left";
}

// Weights may lie beside the ones that are read in any number of other formats, each as large as they are.
TEST(Convert, TakesAlongWhatHoldsNoWeights) {
  const test::TemporaryFolder folder;
  const test::WorkingFolder here(folder.path());
  fs::copy(kConverted, "from");
  const std::vector<std::string> along{"tokenizer.json",      "tokenizer_config.json",  "tokenizer.model", "vocab.txt", "README.md",
                                       "chat_template.jinja", "generation_config.json", "modeling_own.py", "LICENSE",   "cl100k.tiktoken"};
  const std::vector<std::string> weights{"consolidated.00.pth", "model.gguf",
                                         "pytorch_model.bin",   "pytorch_model.bin.index.json",
                                         "model.onnx",          "model.onnx_data",
                                         "tf_model.h5",         "flax_model.msgpack",
                                         "rust_model.ot",       "model-00001-of-00002.safetensors",
                                         "adapter.safetensors", "optimizer.pt",
                                         "weights.npz",         "model.ckpt",
                                         "archive.zip"};
  for (const std::vector<std::string>* names : {&along, &weights}) {
    for (const std::string& name : *names) std::ofstream("from/" + name) << "{}";
  }
  EXPECT_EQ(outcome("convert from there --to hugging-face").err, "");
  for (const std::string& name : along) EXPECT_TRUE(fs::exists("there/" + name)) << name;
  for (const std::string& name : weights) EXPECT_FALSE(fs::exists("there/" + name)) << name;
}

TEST(Convert, TakesAFolderWithASlashAtItsEnd) {
  const test::TemporaryFolder folder;
  const test::WorkingFolder here(folder.path());
  EXPECT_EQ(outcome("convert " + kConverted + " new/there//").err, "");
  EXPECT_EQ(outcome("convert new/there back/./").err, "");
  EXPECT_TRUE(fs::exists("new/there/index.json"));
  EXPECT_TRUE(fs::exists("back/config.json"));
  EXPECT_THAT(outcome("convert " + kConverted + " new/there/").err, HasSubstr("new/there: it is there already"));
  EXPECT_THAT(outcome("convert " + kConverted + " /").err, HasSubstr("/: it is there already"));
  EXPECT_THAT(outcome("convert " + kConverted + " nowhere/..").err, HasSubstr("TO ends in .., the name of a new folder was expected"));
  EXPECT_THAT(outcome_of({"convert", kConverted, ""}).err, HasSubstr("TO is empty, the name of a new folder was expected"));
  EXPECT_EQ(std::distance(fs::directory_iterator("."), {}), 2) << "nothing else is left";
  fs::create_directory("closed");
  fs::permissions("closed", fs::perms(0555));
  const test::AnotherUser other;
  EXPECT_THAT(outcome("convert new/there closed/back").err, HasSubstr("the folder cannot be made: Permission denied"));
}

}  // namespace
}  // namespace moesh::cli
