// The types of numbers that `moesh convert` keeps: each layer has those of its source, and gets them back.
#include <filesystem>
#include <fstream>
#include <functional>

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "store/hugging_face_weights.h"
#include "store/hugging_face_writer.h"
#include "store/parts.h"
#include "tests/cli/hugging_face_support.h"
#include "tests/cli/outcome.h"

namespace moesh::cli {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

using TypeOf = std::function<store::StoredType(const std::string& tensor)>;

struct Taken {
  store::WrittenTensor as;
  std::string from;  // the tensor whose numbers it has
};

void write_tensors(const store::HuggingFaceWeights& weights, const std::string& to, const std::vector<Taken>& tensors) {
  std::vector<store::WrittenTensor> written;
  for (const Taken& tensor : tensors) written.push_back(tensor.as);
  std::vector<std::byte> room;
  store::write_weights(to, written, [&](std::size_t index) {
    const store::WrittenTensor& of = written[index];
    const store::Block whole = store::whole_block(of.shape);
    room.resize(static_cast<std::size_t>(elements(of.shape) * size_of(of.type.dtype)));
    const store::Numbers numbers = weights.read(tensors[index].from);
    store::copy_shared({whole, numbers.dtype, numbers.data, numbers.strides}, store::dense_part(whole, of.type.dtype, room.data()));
    if (of.type == store::kFloat16) store::narrow(room.data(), elements(of.shape), of.type);
    return static_cast<const std::byte*>(room.data());
  });
}

// Writes the same model with its tensors in other types.
void write_in_types(const std::string& from, const std::string& to, const TypeOf& type_of) {
  fs::create_directory(to);
  fs::copy(from + "/config.json", to);
  const store::HuggingFaceWeights weights(from);
  std::vector<Taken> tensors;
  for (const auto& [name, shape] : weights.shapes()) tensors.push_back({{name, type_of(name), shape}, name});
  write_tensors(weights, to, tensors);
}

// Gemma 4 with twelve layers in two cycles, each of five local ones and a global one, which are a stack within a stack.
void write_cycles(const std::string& to, const TypeOf& type_of) {
  const std::string from = test::source_folder() / "tests/golden/hf/gemma4";
  auto config = nlohmann::json::parse(test::read_text(from + "/config.json"));
  const auto recorded_layer = [](int layer) { return layer % 6 == 5 ? 2 : layer % 2; };
  config["num_hidden_layers"] = 12;
  config["layer_types"].clear();
  config["per_layer_config"] = {{"5", {{"head_dim", 32}}}, {"11", {{"head_dim", 32}}}};
  for (int layer = 0; layer < 12; ++layer) config["layer_types"].push_back(layer % 6 == 5 ? "full_attention" : "sliding_attention");
  fs::create_directory(to);
  std::ofstream(to + "/config.json") << config;
  const store::HuggingFaceWeights weights(from);
  std::vector<Taken> tensors;
  for (const auto& [name, shape] : weights.shapes()) {
    const bool is_of_layer = name.starts_with("model.layers.");
    for (int layer = 0; layer < (is_of_layer ? 12 : 1); ++layer) {
      const std::string recorded = fmt::format("model.layers.{}.", recorded_layer(layer));
      if (is_of_layer && !name.starts_with(recorded)) continue;
      const std::string as = is_of_layer ? fmt::format("model.layers.{}.{}", layer, name.substr(recorded.size())) : name;
      tensors.push_back({{as, type_of(as), shape}, name});
    }
  }
  write_tensors(weights, to, tensors);
}

const std::vector<store::StoredType> kTypes{{DType::float32}, {DType::bfloat16}, {DType::float64}, store::kFloat16};

TEST(ConvertedTypes, EveryTypeIsTheSameThereAndBackInEveryByte) {
  for (const store::StoredType type : kTypes) {
    const test::TemporaryFolder folder;
    const test::WorkingFolder here(folder.path());
    write_in_types(kLlama, "model", [&](const std::string&) { return type; });
    EXPECT_EQ(outcome("convert model there").err, "");
    EXPECT_EQ(outcome("convert there back").err, "");
    EXPECT_EQ(outcome("convert model again --to hugging-face").err, "");
    EXPECT_EQ(tensors_of("back"), tensors_of("model")) << name_of(type);
    EXPECT_EQ(tensors_of("again"), tensors_of("model")) << name_of(type);
    const std::string said = "dtype\": \"" + std::string(name_of(type)) + "\"";
    EXPECT_THAT(test::read_text("back/config.json"), HasSubstr(said));
    EXPECT_THAT(test::read_text("again/config.json"), HasSubstr(said));
  }
}

TEST(ConvertedTypes, LayersOfAStackKeepTypesOfTheirOwn) {
  for (const std::string& model : {kLlama, kGptOss, kGemma, kLlama4, kGemma4}) {
    const test::TemporaryFolder folder;
    const test::WorkingFolder here(folder.path());
    std::size_t next = 0;
    write_in_types(model, "model", [&](const std::string&) { return kTypes[next++ % kTypes.size()]; });
    for (const char* stacks : {"true", "false"}) {
      EXPECT_EQ(outcome("convert model there scan_layers=" + std::string(stacks)).err, "");
      EXPECT_EQ(outcome("convert there back").err, "");
      EXPECT_EQ(tensors_of("back"), tensors_of("model")) << model;
      fs::remove_all("there");
      fs::remove_all("back");
    }
  }
}

TEST(ConvertedTypes, LayersOfAStackWithinAStackKeepTypesOfTheirOwn) {
  const std::string cycles = " layer_attention=[] scan_layers=true override_model_config=true";
  std::size_t next = 0;
  const std::vector<TypeOf> ways{[](const std::string& name) { return kTypes[name.starts_with("model.layers.7.") ? 1 : 0]; },
                                 [&](const std::string&) { return kTypes[next++ % kTypes.size()]; }};
  for (const TypeOf& type_of : ways) {
    const test::TemporaryFolder folder;
    const test::WorkingFolder here(folder.path());
    write_cycles("model", type_of);
    EXPECT_EQ(outcome("convert model there" + cycles).err, "");
    EXPECT_EQ(outcome("checkpoint show there").err, "");
    EXPECT_THAT(test::read_text("there/index.json"), HasSubstr("scanned_blocks/local_layers"));
    EXPECT_EQ(outcome("convert there back").err, "");
    EXPECT_EQ(tensors_of("back"), tensors_of("model"));
  }
}

// If the query kernel has to be scaled for the model, it is stored in a wide type, so that the narrow numbers survive the round trip.
TEST(ConvertedTypes, ScaledNumbersAreTheSameThereAndBackWhereTheyAreNarrow) {
  for (const store::StoredType type : {store::StoredType{DType::bfloat16}, store::kFloat16}) {
    const test::TemporaryFolder folder;
    const test::WorkingFolder here(folder.path());
    write_in_types(kLlama, "model", [&](const std::string&) { return type; });
    EXPECT_EQ(outcome("convert model there attention_score_scale=-1 override_model_config=true").err, "");
    EXPECT_EQ(outcome("convert there back").err, "");
    EXPECT_EQ(tensors_of("back"), tensors_of("model")) << name_of(type);
  }
}

}  // namespace
}  // namespace moesh::cli
