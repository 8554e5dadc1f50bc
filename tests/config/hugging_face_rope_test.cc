// Rotary positions of Hugging Face's files: combinations of keys are read as transformers reads them, or refused.
#include <map>
#include <string>

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "config/hugging_face.h"
#include "config/hugging_face_write.h"
#include "config/load.h"
#include "tests/support.h"

namespace moesh::config {
namespace {

using ::testing::HasSubstr;

struct RopeFamily {
  const char *type, *architecture;
};

// Families that rotate whole heads, in all layers alike.
constexpr RopeFamily kWhole[] = {{"llama", "LlamaForCausalLM"},
                                 {"mistral", "MistralForCausalLM"},
                                 {"mixtral", "MixtralForCausalLM"},
                                 {"qwen2", "Qwen2ForCausalLM"},
                                 {"qwen2_moe", "Qwen2MoeForCausalLM"},
                                 {"qwen3", "Qwen3ForCausalLM"},
                                 {"qwen3_moe", "Qwen3MoeForCausalLM"},
                                 {"gemma", "GemmaForCausalLM"},
                                 {"gemma2", "Gemma2ForCausalLM"},
                                 {"llama4_text", "Llama4ForCausalLM"},
                                 {"gpt_oss", "GptOssForCausalLM"},
                                 {"deepseek_v3", "DeepseekV3ForCausalLM"},
                                 {"deepseek_v32", "DeepseekV32ForCausalLM"}};
// Families whose layers with a window rotate in their own way.
constexpr RopeFamily kOfKinds[] = {{"gemma3_text", "Gemma3ForCausalLM"}, {"olmo3", "Olmo3ForCausalLM"}};
constexpr RopeFamily kPartial[] = {{"glm4_moe", "Glm4MoeForCausalLM"}, {"qwen3_next", "Qwen3NextForCausalLM"}};

std::string rope_file(const RopeFamily& family, const std::string& more) {
  return fmt::format(R"({{"model_type": "{}", "architectures": ["{}"], "hidden_size": 64, "num_hidden_layers": 4, "num_attention_heads": 4,
                        "num_key_value_heads": 2, "head_dim": 16, "vocab_size": 128, "intermediate_size": 96{}}})",
                     family.type, family.architecture, more);
}

std::map<std::string, std::string> rope_keys(const std::string& text) {
  std::map<std::string, std::string> keys;
  for (const HuggingFaceKey& key : hugging_face_keys_in(text, "config.json")) keys[key.key] = key.value;
  return keys;
}

std::string rope_refusal(const std::string& text) {
  return test::message_of([&] { rope_keys(text); });
}

std::string file_of(const std::string& words) { return hugging_face_config_of(load(test::words_of(words)).settings, "float32"); }

constexpr const char* kLlama3 = R"({"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                                    "original_max_position_embeddings": 64})";

TEST(HuggingFaceRope, WholeHeadsAreRotatedInMostFamilies) {
  const auto check = [](const RopeFamily& family) {
    EXPECT_THAT(rope_refusal(rope_file(family, R"(, "partial_rotary_factor": 0.5)")),
                HasSubstr("partial_rotary_factor: 0.5 asks for what moesh does not do: 1, as the family rotates whole heads, was expected"))
        << family.type;
    EXPECT_EQ(rope_refusal(rope_file(family, R"(, "partial_rotary_factor": 1.0)")), "no error") << family.type;
  };
  for (const RopeFamily& family : kWhole) {
    check(family);
    EXPECT_THAT(rope_refusal(rope_file(family, R"(, "rope_parameters": {"rope_type": "default", "partial_rotary_factor": 0.5})")),
                HasSubstr("rope_parameters.partial_rotary_factor: 0.5 asks for"))
        << family.type;
  }
  for (const RopeFamily& family : kOfKinds) check(family);
  for (const RopeFamily& family : kPartial)
    EXPECT_EQ(rope_keys(rope_file(family, R"(, "partial_rotary_factor": 0.125)"))["partial_rotary_factor"], "0.125") << family.type;
}

TEST(HuggingFaceRope, TheOlderKeyGoesBeforeTheNewerOne) {
  const std::string both = R"(, "rope_theta": 700.0, "rope_scaling": {"rope_type": "linear", "factor": 4.0},
                              "rope_parameters": {"rope_type": "default", "rope_theta": 500.0})";
  auto keys = rope_keys(rope_file(kWhole[0], both));
  EXPECT_EQ(keys["rope_linear_scaling_factor"], "4");
  EXPECT_EQ(keys["rope_max_timescale"], "700");
  keys = rope_keys(rope_file(kWhole[0], R"(, "rope_scaling": {}, "rope_parameters": {"rope_type": "default", "rope_theta": 500.0})"));
  EXPECT_EQ(keys["rope_max_timescale"], "500");
}

TEST(HuggingFaceRope, KindsOfLayersAreSaidInOneWay) {
  for (const RopeFamily& family : kOfKinds) {
    const std::string kinds = R"(, "rope_parameters": {"full_attention": {"rope_type": "default"}})";
    EXPECT_EQ(rope_refusal(rope_file(family, kinds)), "no error");
    EXPECT_EQ(rope_refusal(rope_file(family, R"(, "rope_parameters": {"sliding_attention": {"rope_type": "default"}})")), "no error");
    EXPECT_THAT(rope_refusal(rope_file(family, kinds + R"(, "rope_scaling": {"rope_type": "linear", "factor": 2.0})")),
                HasSubstr("rope_scaling: {\"factor\":2.0,\"rope_type\":\"linear\"} asks for what moesh does not do"));
    EXPECT_THAT(rope_refusal(rope_file(family, R"(, "rope_parameters": {"rope_type": "linear", "factor": 2.0})")),
                HasSubstr("full_attention and sliding_attention in it was expected"));
  }
  EXPECT_THAT(rope_refusal(rope_file(kOfKinds[1], R"(, "rope_theta": 50000.0)")),
              HasSubstr("rope_theta: 50000.0 asks for what moesh does not do: 500000, or one for each kind of layer in rope_parameters"));
}

TEST(HuggingFaceRope, ThetaOfAllStandsForThatOfAKind) {
  const std::string kinds = R"(, "rope_theta": 70000.0, "rope_parameters": {"full_attention": {"rope_type": "default"}})";
  auto keys = rope_keys(rope_file(kOfKinds[0], kinds + R"(, "rope_local_base_freq": 3000.0)"));
  EXPECT_EQ(keys["rope_max_timescale"], "70000");
  EXPECT_EQ(keys["local_rope_max_timescale"], "3000");
}

TEST(HuggingFaceRope, Llama3sRotationIsNotBesideLayersWithTheirOwn) {
  for (const RopeFamily& family : kOfKinds) {
    const auto expected = HasSubstr("default, linear or yarn, as layers with a window rotate halves, was expected");
    EXPECT_THAT(rope_refusal(rope_file(family, fmt::format(R"(, "rope_scaling": {})", kLlama3))), expected);
    EXPECT_THAT(rope_refusal(rope_file(family, fmt::format(R"(, "rope_parameters": {{"full_attention": {}}})", kLlama3))), expected);
  }
}

TEST(HuggingFaceRope, GptOssIsStretchedUnlessItSaysOtherwise) {
  const RopeFamily gpt_oss{"gpt_oss", "GptOssForCausalLM"};
  for (const char* none :
       {"", R"(, "rope_scaling": null)", R"(, "rope_parameters": null)", R"(, "rope_theta": 9000.0, "rope_scaling": null)"}) {
    auto keys = rope_keys(rope_file(gpt_oss, none));
    EXPECT_EQ(keys["rope_type"], "yarn") << none;
    EXPECT_EQ(keys["rope_factor"], "32");
    EXPECT_EQ(keys["rope_truncate"], "false");
    EXPECT_EQ(keys["original_max_position_embeddings"], "4096");
    EXPECT_EQ(keys["rope_max_timescale"], std::string(none).find("9000") == std::string::npos ? "150000" : "9000");
  }
  for (const char* plain : {R"(, "rope_parameters": {"rope_type": "default", "rope_theta": 9000.0})", R"(, "rope_parameters": {})"})
    EXPECT_EQ(rope_keys(rope_file(gpt_oss, plain))["rope_type"], "default") << plain;
  const std::string model =
      "decoder_block=gpt_oss base_mlp_dim=32 num_experts=4 num_experts_per_tok=2 base_moe_mlp_dim=32 sliding_window_size=16 "
      "attention_sink=true attention_bias=true routed_bias=true mlp_bias=true mlp_activations=[sigmoid,linear] mlp_activations_limit=7.0 ";
  EXPECT_THAT(file_of(model + "rope_type=default rope_max_timescale=5000"), HasSubstr("\"rope_type\": \"default\""));
  EXPECT_EQ(rope_keys(file_of(model + "rope_type=default rope_max_timescale=5000"))["rope_max_timescale"], "5000");
  EXPECT_EQ(rope_keys(file_of(model + "rope_type=yarn rope_interleave=false"))["rope_type"], "yarn");
}

TEST(HuggingFaceRope, ThetaIsAWholeNumber) {
  const auto expected = HasSubstr("12345.5, a whole number was expected, as rope_max_timescale is one");
  EXPECT_THAT(rope_refusal(rope_file(kWhole[0], R"(, "rope_theta": 12345.5)")), expected);
  EXPECT_THAT(rope_refusal(rope_file(kWhole[0], R"(, "rope_parameters": {"rope_theta": 12345.5})")), expected);
  EXPECT_THAT(rope_refusal(rope_file(kOfKinds[0], R"(, "rope_local_base_freq": 5.5)")), HasSubstr("as local_rope_max_timescale is one"));
}

}  // namespace
}  // namespace moesh::config
