// How a config.json says that weights are quantised: each key is heeded, does not matter, or is refused.
#include "config/hugging_face_quantization.h"

#include <optional>
#include <string>

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "config/hugging_face.h"
#include "tests/support.h"

namespace moesh::config {
namespace {

using ::testing::HasSubstr;

std::string text_file(const std::string& type, const std::string& architecture, const std::string& more) {
  return fmt::format(R"({{"model_type": "{}", "architectures": ["{}"], "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
                        "num_key_value_heads": 2, "vocab_size": 128, "intermediate_size": 96{}}})",
                     type, architecture, more);
}

std::string quantized_llama(const std::string& quantization) {
  return text_file("llama", "LlamaForCausalLM", R"(, "quantization_config": )" + quantization);
}

std::string fp8(const std::string& more) { return R"({"quant_method": "fp8")" + more + "}"; }

std::optional<ScaledBlock> block_in(const std::string& text) {
  const test::TemporaryFolder folder;
  folder.write("config.json", text);
  return hugging_face_scaled_block(folder.path());
}

std::string quantization_refusal(const std::string& quantization) {
  return test::message_of([&] { hugging_face_keys_in(quantized_llama(quantization), "config.json"); });
}

TEST(HuggingFaceQuantization, ABlockHasTheSizeThatIsSaid) {
  const std::optional<ScaledBlock> usual = ScaledBlock{128, 128};
  EXPECT_EQ(block_in(quantized_llama(fp8(""))), usual);
  EXPECT_EQ(block_in(quantized_llama(fp8(R"(, "weight_block_size": [128, 128])"))), usual);
  EXPECT_EQ(block_in(quantized_llama(fp8(R"(, "weight_block_size": [96, 32])"))), (ScaledBlock{96, 32}));
  EXPECT_EQ(block_in(quantized_llama(fp8(R"(, "weight_block_size": null)"))), std::nullopt) << "one scale for each tensor";
  for (const char* none : {"null", "{}", R"({"quant_method": "mxfp4", "modules_to_not_convert": ["lm_head"]})"})
    EXPECT_EQ(block_in(quantized_llama(none)), usual) << none;
  for (const char* size : {"[]", "[128]", "[128, 128, 1]", "[128, 0]", "[-1, 128]"}) {
    EXPECT_THAT(quantization_refusal(fp8(fmt::format(R"(, "weight_block_size": {})", size))),
                HasSubstr("asks for what moesh does not do: [rows, columns] of a block, or null was expected"))
        << size;
  }
  EXPECT_THAT(quantization_refusal(fp8(R"(, "weight_block_size": "128x128")")),
              HasSubstr("config.json: quantization_config.weight_block_size: \"128x128\", a list of whole numbers was expected"));
}

TEST(HuggingFaceQuantization, WhatDoesNotChangeWeightsIsTaken) {
  for (const char* more : {R"(, "fmt": "e4m3", "scale_fmt": "ue8m0", "activation_scheme": "dynamic")", R"(, "activation_scheme": "static")",
                           R"(, "scale_fmt": "float", "expert_dtype": "fp8", "modules_to_convert": null, "dequantize": true)",
                           R"(, "modules_to_not_convert": ["lm_head"], "ignored_layers": ["gate"])"})
    EXPECT_EQ(quantization_refusal(fp8(more)), "no error") << more;
}

TEST(HuggingFaceQuantization, WhatElseIsSaidIsRefusedByItsName) {
  EXPECT_THAT(quantization_refusal(fp8(R"(, "fmt": "e5m2")")),
              HasSubstr("config.json: quantization_config.fmt: \"e5m2\" asks for what moesh does not do: e4m3 was expected"));
  EXPECT_THAT(quantization_refusal(fp8(R"(, "expert_dtype": "fp4")")), HasSubstr("quantization_config.expert_dtype: \"fp4\" asks for"));
  EXPECT_THAT(quantization_refusal(fp8(R"(, "modules_to_convert": ["embed"])")), HasSubstr("quantization_config.modules_to_convert: "));
  EXPECT_THAT(quantization_refusal(fp8(R"(, "scale_fmt": "e5m3")")), HasSubstr("float or ue8m0 was expected"));
  EXPECT_THAT(quantization_refusal(fp8(R"(, "activation_scheme": "block")")), HasSubstr("dynamic or static was expected"));
  EXPECT_THAT(quantization_refusal(fp8(R"(, "group_size": 64)")),
              HasSubstr("config.json: quantization_config.group_size: a key that moesh does not know, set to 64"));
  EXPECT_THAT(quantization_refusal(R"({"quant_method": "mxfp4", "group_size": 64})"), HasSubstr("quantization_config.group_size: a key"));
  EXPECT_THAT(quantization_refusal(R"({"load_in_8bit": true})"), HasSubstr("quantised as '', fp8 or mxfp4 was expected"));
  EXPECT_THAT(quantization_refusal("7"), HasSubstr("quantization_config.: an object of keys and values was expected"));
}

// As transformers has it: what is said beside the text goes first.
TEST(HuggingFaceQuantization, OfAModelThatSeesImagesItIsSaidBesideTheTextOrInIt) {
  const auto of = [](std::int64_t rows) {
    return R"("quantization_config": )" + fp8(fmt::format(R"(, "weight_block_size": [{}, 8])", rows));
  };
  const auto seeing = [](const std::string& in_text, const std::string& beside) {
    return R"({"model_type": "mistral3", "architectures": ["Mistral3ForConditionalGeneration"], "text_config": )" +
           text_file("mistral", "MistralForCausalLM", in_text) + R"(, "vision_config": {"hidden_size": 16})" + beside + "}";
  };
  EXPECT_EQ(block_in(seeing("", "")), ScaledBlock{});
  EXPECT_EQ(block_in(seeing(", " + of(32), "")), (ScaledBlock{32, 8}));
  EXPECT_EQ(block_in(seeing("", ", " + of(64))), (ScaledBlock{64, 8}));
  EXPECT_EQ(block_in(seeing(", " + of(32), ", " + of(64))), (ScaledBlock{64, 8}));
  EXPECT_EQ(block_in(seeing(", " + of(32), R"(, "quantization_config": {})")), (ScaledBlock{32, 8}));
}

}  // namespace
}  // namespace moesh::config
