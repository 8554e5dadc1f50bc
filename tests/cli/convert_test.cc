// What `moesh convert` makes of TO, the folder that it writes.
#include <csignal>
#include <filesystem>
#include <fstream>

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "tests/cli/outcome.h"
#include "tests/paths.h"
#include "tests/process.h"

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

// A model of half a GiB, as a sparse file of zeros, is converted long enough for a signal to come in between.
TEST(ConvertSlow, LeavesNothingBehindWhenASignalEndsIt) {
  const test::TemporaryFolder folder;
  nlohmann::ordered_json config = nlohmann::ordered_json::parse(test::read_text(kConverted + "/config.json"));
  constexpr std::int64_t kVocab = 65536, kDims = 1024, kWidth = 64, kHeads = 4, kKeyHeads = 2, kHeadDim = 16;
  config["vocab_size"] = kVocab, config["hidden_size"] = kDims, config["intermediate_size"] = kWidth, config["num_hidden_layers"] = 1;
  nlohmann::ordered_json header;
  std::int64_t end = 0;
  const auto add = [&](const std::string& name, const std::vector<std::int64_t>& shape) {
    std::int64_t bytes = 4;
    for (const std::int64_t size : shape) bytes *= size;
    header[name] = {{"dtype", "F32"}, {"shape", shape}, {"data_offsets", {end, end + bytes}}};
    end += bytes;
  };
  add("lm_head.weight", {kVocab, kDims});
  add("model.embed_tokens.weight", {kVocab, kDims});
  add("model.norm.weight", {kDims});
  const std::string layer = "model.layers.0.";
  for (const char* norm : {"input_layernorm", "post_attention_layernorm"}) add(layer + norm + ".weight", {kDims});
  for (const char* wide : {"mlp.gate_proj", "mlp.up_proj"}) add(layer + wide + ".weight", {kWidth, kDims});
  add(layer + "mlp.down_proj.weight", {kDims, kWidth});
  for (const char* of_keys : {"self_attn.k_proj", "self_attn.v_proj"}) add(layer + of_keys + ".weight", {kKeyHeads * kHeadDim, kDims});
  add(layer + "self_attn.q_proj.weight", {kHeads * kHeadDim, kDims});
  add(layer + "self_attn.o_proj.weight", {kDims, kHeads * kHeadDim});
  fs::create_directory(folder.path() + "/from");
  std::ofstream(folder.path() + "/from/config.json") << config.dump();
  const std::string text = header.dump(), weights = folder.path() + "/from/model.safetensors";
  const auto length = static_cast<std::uint64_t>(text.size());
  std::ofstream(weights, std::ios::binary) << std::string(reinterpret_cast<const char*>(&length), sizeof(length)) << text;
  fs::resize_file(weights, sizeof(length) + text.size() + static_cast<std::uint64_t>(end));
  for (const std::string& how : {std::string(), std::string(" --to hugging-face")}) {
    for (const int signal : {SIGTERM, SIGINT, SIGHUP}) {
      test::Process process("convert " + folder.path() + "/from " + folder.path() + "/there" + how, folder.path());
      const std::string part = fmt::format("{}/there.{}.part", folder.path(), process.id());
      ASSERT_TRUE(test::wait_until([&] { return fs::exists(part); })) << process.err();
      process.send(signal);
      EXPECT_EQ(process.wait(), 128 + signal) << process.err();
      EXPECT_FALSE(fs::exists(part)) << how << signal;
      EXPECT_FALSE(fs::exists(folder.path() + "/there")) << how << signal;
    }
  }
}

}  // namespace
}  // namespace moesh::cli
