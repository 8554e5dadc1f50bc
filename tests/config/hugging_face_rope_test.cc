// Rotary positions of Hugging Face's files: combinations of keys are read as transformers reads them, or refused.
#include <map>
#include <string>

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/json_reader.h"
#include "config/hugging_face.h"
#include "config/hugging_face_write.h"
#include "config/load.h"
#include "config/model_facts.h"
#include "tests/support.h"

namespace moesh::config {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

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

std::string kinds_file(const RopeFamily& family, const std::string& of_full, const std::string& beside) {
  return rope_file(family, fmt::format(R"(, "rope_parameters": {{"full_attention": {{"rope_type": "yarn", "factor": 8.0,
      "original_max_position_embeddings": 8{}}}, "sliding_attention": {{"rope_type": "default"}}{}}})",
                                       of_full, beside));
}

// transformers reads it from the dictionary of all kinds, and nowhere else.
TEST(HuggingFaceRope, TruncateIsSaidBesideTheKindsOfLayers) {
  for (const RopeFamily& family : kOfKinds) {
    const auto truncates = [&](const std::string& text) { return rope_keys(text)["rope_truncate"]; };
    EXPECT_EQ(truncates(kinds_file(family, "", "")), "true") << family.type;
    EXPECT_EQ(truncates(kinds_file(family, R"(, "truncate": false)", "")), "true") << family.type;
    EXPECT_EQ(truncates(kinds_file(family, R"(, "truncate": true)", R"(, "truncate": false)")), "false") << family.type;
    EXPECT_EQ(truncates(kinds_file(family, "", R"(, "truncate": false)")), "false") << family.type;
    EXPECT_EQ(truncates(kinds_file(family, "", R"(, "truncate": null)")), "false") << family.type;
    const std::string older = R"(, "rope_scaling": {"rope_type": "yarn", "factor": 8.0, "original_max_position_embeddings": 8)";
    for (const char* said : {"}", R"(, "truncate": true})", R"(, "truncate": false})"})
      EXPECT_EQ(truncates(rope_file(family, older + said)), "true") << family.type << said;
    EXPECT_THAT(rope_refusal(kinds_file(family, "", R"(, "truncate": 1)")),
                HasSubstr("rope_parameters.truncate: 1, true or false was expected"));
  }
}

TEST(HuggingFaceRope, WhatElseIsBesideTheKindsOfLayersMeansNothing) {
  for (const RopeFamily& family : kOfKinds) {
    const std::string beside = R"(, "beta_fast": 8, "beta_slow": 4, "attention_factor": 0.5, "mscale": 2.0, "mscale_all_dim": 2.0,
                                    "original_max_position_embeddings": 16)";
    auto keys = rope_keys(kinds_file(family, "", ""));
    EXPECT_EQ(rope_keys(kinds_file(family, "", beside)), keys) << family.type;
    EXPECT_EQ(keys["original_max_position_embeddings"], "8");
    EXPECT_THAT(rope_refusal(kinds_file(family, R"(, "partial_rotary_factor": 0.5)", "")),
                HasSubstr("rope_parameters.full_attention.partial_rotary_factor: a key that moesh does not know, set to 0.5"));
  }
}

TEST(HuggingFaceRope, WhereThereIsOneKindTruncateIsSaidWithTheRest) {
  const std::string yarn = R"(, "rope_scaling": {"rope_type": "yarn", "factor": 8.0, "original_max_position_embeddings": 8)";
  for (const auto& [said, expected] : {std::pair("}", "true"), {R"(, "truncate": true})", "true"}, {R"(, "truncate": false})", "false"},
                                       {R"(, "truncate": null})", "false"}})
    EXPECT_EQ(rope_keys(rope_file(kWhole[0], yarn + said))["rope_truncate"], expected) << said;
}

// 0 and null stand for the usual numbers there.
TEST(HuggingFaceRope, YarnsNumbersAreAsTransformersTakesThem) {
  const std::string yarn = R"(, "rope_scaling": {"rope_type": "yarn", "factor": 8.0, "original_max_position_embeddings": 8)";
  const auto usual = rope_keys(rope_file(kWhole[0], yarn + "}"));
  EXPECT_EQ(usual.at("beta_fast"), "32");
  EXPECT_EQ(usual.at("beta_slow"), "1");
  EXPECT_EQ(rope_keys(rope_file(kWhole[0], yarn + R"(, "beta_fast": 0, "beta_slow": 0})")), usual);
  EXPECT_EQ(rope_keys(rope_file(kWhole[0], yarn + R"(, "beta_fast": null, "beta_slow": null, "attention_factor": null})")), usual);
}

Settings settings_of_file(const std::string& text) {
  const test::TemporaryFolder folder;
  folder.write("config.json", text);
  return load({"model_name=" + folder.path()}).settings;
}

TEST(HuggingFaceRope, TruncateIsWrittenWhereItIsRead) {
  for (const RopeFamily& family : kOfKinds) {
    for (const bool truncates : {true, false}) {
      const Settings read = settings_of_file(kinds_file(family, "", fmt::format(R"(, "truncate": {})", truncates)));
      const std::string text = hugging_face_config_of(read, "float32");
      EXPECT_EQ(model_facts(settings_of_file(text)), model_facts(read)) << text;
      const Json written = parse_json(text, "config.json");
      if (truncates) {
        EXPECT_THAT(text, Not(HasSubstr("truncate")));
        continue;
      }
      EXPECT_EQ(written.at("rope_parameters").at("truncate"), false) << text;
      EXPECT_FALSE(written.at("rope_parameters").at("full_attention").contains("truncate"));
      for (const char* older : {"rope_scaling", "rope_theta", "rope_local_base_freq"}) EXPECT_FALSE(written.contains(older)) << older;
      EXPECT_EQ(written.at("rope_parameters").at("sliding_attention").at("rope_theta"), family.type == kOfKinds[0].type ? 10000 : 500000);
    }
  }
}

TEST(HuggingFaceRope, ThetaOfLayersWithAWindowIsAKeyOfGemma) {
  const RopeFamily olmo3 = kOfKinds[1];
  const std::string kinds = R"(, "rope_parameters": {"full_attention": {"rope_type": "default"}})";
  for (const std::string& more : {std::string(), kinds}) {
    EXPECT_THAT(rope_refusal(rope_file(olmo3, more + R"(, "rope_local_base_freq": 10000.0)")),
                HasSubstr("config.json: rope_local_base_freq: 10000.0 asks for what moesh does not do: 500000, or rope_theta of "
                          "sliding_attention in rope_parameters, was expected"));
    for (const char* same : {"", R"(, "rope_local_base_freq": 500000.0)", R"(, "rope_local_base_freq": null)"})
      EXPECT_EQ(rope_keys(rope_file(olmo3, more + same))["local_rope_max_timescale"], "500000") << same;
  }
  const std::string own = R"(, "rope_parameters": {"sliding_attention": {"rope_type": "default", "rope_theta": 3000.0}})";
  EXPECT_EQ(rope_keys(rope_file(olmo3, own))["local_rope_max_timescale"], "3000");
}

// Of an odd number transformers makes an even one, or refuses it.
TEST(HuggingFaceRope, AnEvenNumberOfDimsIsRotated) {
  const RopeFamily glm = kPartial[0];
  const auto refused = [](const RopeFamily& family, const std::string& more) { return rope_refusal(rope_file(family, more)); };
  const std::string nested = R"(, "head_dim": 12, "rope_parameters": {"rope_type": "default", "partial_rotary_factor": 0.75})";
  EXPECT_THAT(refused(glm, nested), HasSubstr("config.json: rope_parameters.partial_rotary_factor: 9 of 12 dims of a head are rotated, an "
                                              "even number was expected\n  fix: dims are rotated in pairs: "));
  EXPECT_THAT(refused(glm, R"(, "head_dim": 12, "partial_rotary_factor": 0.75)"),
              HasSubstr("config.json: partial_rotary_factor: 9 of 12 dims of a head are rotated"));
  EXPECT_THAT(refused(glm, R"(, "head_dim": 15, "partial_rotary_factor": 1.0)"), HasSubstr("config.json: head_dim: 15 of 15 dims"));
  EXPECT_EQ(refused(glm, R"(, "head_dim": 13, "partial_rotary_factor": 0.5)"), "no error") << "6 are rotated";
  for (const RopeFamily& family : {kWhole[0], kOfKinds[0], kOfKinds[1]})
    EXPECT_THAT(refused(family, R"(, "head_dim": 9)"), HasSubstr("config.json: head_dim: 9 of 9 dims of a head")) << family.type;
  const RopeFamily deepseek{"deepseek_v3", "DeepseekV3ForCausalLM"}, gemma4{"gemma4_text", "Gemma4ForCausalLM"};
  EXPECT_THAT(refused(deepseek, R"(, "qk_rope_head_dim": 7)"), HasSubstr("config.json: qk_rope_head_dim: 7 of 7 dims of a head"));
  EXPECT_EQ(refused(deepseek, R"(, "head_dim": 7)"), "no error") << "no head has this width";
  const std::string plain = R"(, "hidden_size_per_layer_input": 0)";
  EXPECT_THAT(refused(gemma4, plain + R"(, "head_dim": 9)"), HasSubstr("config.json: head_dim: 9 of 9 dims"));
  EXPECT_THAT(refused(gemma4, plain + R"(, "global_head_dim": 13)"), HasSubstr("config.json: global_head_dim: 13 of 13 dims"));
  EXPECT_THAT(refused(gemma4, plain + R"(, "per_layer_config": {"3": {"head_dim": 13}})"),
              HasSubstr("config.json: per_layer_config.3.head_dim: 13 of 13 dims"));
}

}  // namespace
}  // namespace moesh::config
