// What config.json of Hugging Face means where it leaves a key out, or says more than a model has.
#include <map>
#include <set>
#include <string>

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/json_reader.h"
#include "base/text.h"
#include "base/whole_file.h"
#include "config/hugging_face.h"
#include "config/hugging_face_families.h"
#include "tests/paths.h"
#include "tests/support.h"

namespace moesh::config {
namespace {

using ::testing::HasSubstr;

// A file of the fewest keys, with this many layers.
std::string sparse_file(const std::string& type, const std::string& architecture, int layers, const std::string& more = "") {
  return fmt::format(R"({{"model_type": "{}", "architectures": ["{}"], "hidden_size": 64, "num_hidden_layers": {}, "num_attention_heads": 4,
                        "vocab_size": 128, "intermediate_size": 96, "max_position_embeddings": 256{}}})",
                     type, architecture, layers, more);
}

std::map<std::string, std::string> given(const std::string& text) {
  std::map<std::string, std::string> keys;
  for (const HuggingFaceKey& key : hugging_face_keys_in(text, "config.json")) keys[key.key] = key.value;
  return keys;
}

std::size_t times(const std::string& list, const std::string& word) {
  const std::vector<std::string> words = split(list.substr(1, list.size() - 2), ',');
  return static_cast<std::size_t>(std::count(words.begin(), words.end(), word));
}

// tests/golden/hf/defaults.json: each key of a class of configurations with its default, and whether it may be null.
Json recorded_defaults() {
  const std::string file = test::source_folder() / "tests/golden/hf/defaults.json";
  return parse_json(read_file(file, "defaults", 1 << 20, ""), file);
}

TEST(HuggingFaceDefaults, AreThoseOfTransformersClasses) {
  const std::set<std::string> sizes{"hidden_size", "num_hidden_layers", "num_attention_heads", "vocab_size", "intermediate_size"};
  const std::set<std::string> unread{"head_dim", "num_mtp_layers", "hidden_size_per_layer_input", "vocab_size_per_layer_input",
                                     "use_double_wide_mlp", "norm_topk_prob"};
  const Json recorded = recorded_defaults();
  for (const HuggingFaceFamily& family : hugging_face_families()) {
    const Json& theirs = recorded.at(std::string(family.model_type == "kimi_k2" ? "deepseek_v3" : family.model_type));
    std::set<std::string> listed;
    for (const auto& [key, value, may_be_null] : hugging_face_usual(family.model_type)) {
      listed.insert(std::string(key));
      if (family.model_type == "qwen3_5_moe_text" && key == "intermediate_size") continue;  // a key of ours: no layer has it
      EXPECT_EQ(theirs.value(std::string(key), Json()), Json::array({Json::parse(value), may_be_null})) << family.model_type << ": " << key;
    }
    for (const auto& [key, value] : theirs.items())
      EXPECT_TRUE(listed.contains(key) || sizes.contains(key) || unread.contains(key)) << family.model_type << ": " << key;
  }
}

Json sparse_model(const HuggingFaceFamily& family) {
  Json config = parse_json(sparse_file(std::string(family.model_type), std::string(family.architecture), 12), "");
  config.erase("max_position_embeddings");
  if (family.model_type == "gemma4_text") config["hidden_size_per_layer_input"] = 0;
  if (family.model_type == "deepseek_v2") config["num_experts_per_tok"] = 2;
  return config;
}

TEST(HuggingFaceDefaults, AKeyThatIsLeftOutIsReadAsIfItWereSaid) {
  for (const HuggingFaceFamily& family : hugging_face_families()) {
    const auto usual = given(sparse_model(family).dump());
    for (const auto& [key, value, may_be_null] : hugging_face_usual(family.model_type)) {
      Json said = sparse_model(family);
      if (said.contains(key)) continue;
      said[key] = Json::parse(value);
      EXPECT_EQ(given(said.dump()), usual) << family.model_type << ": " << key;
      said[key] = nullptr;
      const std::string refused = test::message_of([&] { given(said.dump()); });
      const std::string expected = fmt::format("config.json: {}: null, where transformers takes none", key);
      EXPECT_EQ(refused.find(expected) == std::string::npos, may_be_null) << family.model_type << ": " << refused;
    }
  }
}

// As transformers' classes compute with null.
TEST(HuggingFaceDefaults, NullIsNotWhatIsLeftOut) {
  const auto set_to = [](std::string_view type, const char* key, const Json& value, const std::string& setting) {
    const auto families = hugging_face_families();
    Json config = sparse_model(*std::find_if(families.begin(), families.end(), [&](const auto& one) { return one.model_type == type; }));
    if (!value.is_discarded()) config[key] = value;
    return given(config.dump())[setting];
  };
  const Json absent = Json::parse("-", nullptr, false), null;
  EXPECT_EQ(set_to("gemma2", "final_logit_softcapping", absent, "final_logits_soft_cap"), "30");
  EXPECT_EQ(set_to("gemma2", "final_logit_softcapping", null, "final_logits_soft_cap"), "0");
  EXPECT_EQ(set_to("gemma2", "attn_logit_softcapping", absent, "attn_logits_soft_cap"), "50");
  EXPECT_EQ(set_to("gemma2", "attn_logit_softcapping", null, "attn_logits_soft_cap"), "0");
  EXPECT_EQ(set_to("mistral", "sliding_window", absent, "sliding_window_size"), "4096");
  EXPECT_EQ(set_to("mistral", "sliding_window", null, "sliding_window_size"), "");
  EXPECT_EQ(set_to("mixtral", "sliding_window", absent, "sliding_window_size"), "");
  EXPECT_EQ(set_to("deepseek_v3", "q_lora_rank", absent, "q_lora_rank"), "1536");
  EXPECT_EQ(set_to("deepseek_v3", "q_lora_rank", null, "q_lora_rank"), "0");
  EXPECT_EQ(set_to("deepseek_v3", "norm_topk_prob", absent, "routed_weights"), "normalized");
  EXPECT_EQ(set_to("deepseek_v3", "norm_topk_prob", null, "routed_weights"), "scores");
  EXPECT_EQ(set_to("qwen2", "num_key_value_heads", absent, "base_num_kv_heads"), "32");
  EXPECT_EQ(set_to("qwen2", "num_key_value_heads", null, "base_num_kv_heads"), "4");
  for (const char* type : {"gemma2", "gemma3_text", "gemma4_text"})
    EXPECT_EQ(set_to(type, "hidden_activation", absent, "mlp_activations"), "[gelu,linear]") << type;
}

TEST(HuggingFaceDefaults, AWindowIsNotSaidByZero) {
  for (const char* type : {"mistral", "mixtral"}) {
    const std::string architecture = type == std::string("mistral") ? "MistralForCausalLM" : "MixtralForCausalLM";
    EXPECT_THAT(test::message_of([&] { given(sparse_file(type, architecture, 2, R"(, "sliding_window": 0)")); }),
                HasSubstr("at least 1, or null was expected"));
  }
  EXPECT_THAT(test::message_of([&] {
                given(sparse_file("qwen3", "Qwen3ForCausalLM", 2, R"(, "use_sliding_window": true, "sliding_window": 0)"));
              }),
              HasSubstr("at least 1, or null was expected"));
}

// Files that leave the length out are stretched from the one that the family usually has.
TEST(HuggingFaceDefaults, PositionsAreStretchedFromTheLengthThatIsSaid) {
  const auto original = [](const std::string& type, const std::string& architecture, const std::string& more, const std::string& setting) {
    Json config = parse_json(sparse_file(type, architecture, 2, more), "");
    if (more.find("max_position") == std::string::npos) config.erase("max_position_embeddings");
    return given(config.dump())[setting];
  };
  const std::string yarn = R"(, "rope_scaling": {"rope_type": "yarn", "factor": 4.0})";
  const std::string llama3 =
      R"(, "rope_scaling": {"rope_type": "llama3", "factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0})";
  const char *by_yarn = "original_max_position_embeddings", *by_llama3 = "llama3_original_positions";
  EXPECT_EQ(original("mistral", "MistralForCausalLM", yarn, by_yarn), "131072");
  EXPECT_EQ(original("llama", "LlamaForCausalLM", yarn, by_yarn), "2048");
  EXPECT_EQ(original("llama", "LlamaForCausalLM", llama3, by_llama3), "2048");
  EXPECT_EQ(original("llama", "LlamaForCausalLM", llama3 + R"(, "max_position_embeddings": 512)", by_llama3), "512");
}

// transformers has no window to give to such layers, or one of no token.
TEST(HuggingFaceDefaults, QwensLayersHaveNoWindowUnlessItIsUsed) {
  const std::string types = R"(, "sliding_window": 6, "layer_types": ["sliding_attention", "full_attention"])";
  for (const auto& [type, architecture] :
       {std::pair("qwen2", "Qwen2ForCausalLM"), {"qwen3", "Qwen3ForCausalLM"}, {"qwen2_moe", "Qwen2MoeForCausalLM"}}) {
    for (const char* unused : {"", R"(, "use_sliding_window": false)", R"(, "use_sliding_window": true, "sliding_window": null)"}) {
      const std::string text = sparse_file(type, architecture, 2, types + unused);
      EXPECT_THAT(test::message_of([&] { given(text); }),
                  HasSubstr("full_attention only, unless use_sliding_window is true, was expected"));
    }
    EXPECT_EQ(given(sparse_file(type, architecture, 2, types + R"(, "use_sliding_window": true)"))["layer_attention"], "[sliding,full]");
  }
}

TEST(HuggingFaceDefaults, LinearAttentionsConvolutionsAreSilu) {
  for (const auto& [type, architecture] : {std::pair("qwen3_next", "Qwen3NextForCausalLM"), {"qwen3_5_moe_text", "Qwen3_5MoeForCausalLM"}}) {
    for (const std::string function : {"silu", "swish", "relu", "gelu_pytorch_tanh", "sigmoid"}) {
      const std::string text = sparse_file(type, architecture, 4, fmt::format(R"(, "hidden_act": "{}")", function));
      const bool is_silu = function == "silu" || function == "swish";
      EXPECT_THAT(test::message_of([&] { given(text); }),
                  HasSubstr(is_silu ? "no error" : "silu, which the convolutions of linear attention have too, was expected"));
    }
  }
}

// Qwen 3's number of experts has two names, of which one is heeded.
TEST(HuggingFaceDefaults, Qwen3sExpertsHaveTwoNames) {
  const auto experts = [](const std::string& more) {
    return given(sparse_file("qwen3_moe", "Qwen3MoeForCausalLM", 2, more))["num_experts"];
  };
  EXPECT_EQ(experts(""), "128");
  EXPECT_EQ(experts(R"(, "num_experts": 8)"), "8");
  EXPECT_EQ(experts(R"(, "num_local_experts": 4)"), "4");
  EXPECT_EQ(experts(R"(, "num_experts": 8, "num_local_experts": 4)"), "4");
}

TEST(HuggingFaceDefaults, EachQueryHeadHasAKeyHead) {
  EXPECT_EQ(given(sparse_file("llama", "LlamaForCausalLM", 2))["base_num_kv_heads"], "4");
  EXPECT_EQ(given(sparse_file("llama", "LlamaForCausalLM", 2, R"(, "num_key_value_heads": 2)"))["base_num_kv_heads"], "2");
}

TEST(HuggingFaceDefaults, QwensLayersHaveAWindowFromTheTwentyNinthOn) {
  const std::string window = R"(, "use_sliding_window": true, "sliding_window": 6)";
  const std::string qwen2 = given(sparse_file("qwen2", "Qwen2ForCausalLM", 30, window))["layer_attention"];
  EXPECT_EQ(times(qwen2, "sliding"), 2u);
  EXPECT_TRUE(qwen2.ends_with("full,sliding,sliding]"));
  const std::string experts =
      R"(, "num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 32, "shared_expert_intermediate_size": 32)";
  const std::string moe = given(sparse_file("qwen2_moe", "Qwen2MoeForCausalLM", 31, window + experts))["layer_attention"];
  EXPECT_EQ(times(moe, "sliding"), 14u) << "every other one of the first 28";
  EXPECT_TRUE(moe.ends_with("sliding,full,full,full,full]"));
}

// As transformers' Qwen3_5MoeTextConfig has them.
TEST(HuggingFaceDefaults, Qwen35sSizesMayBeLeftOut) {
  std::map<std::string, std::string> keys = given(R"({"model_type": "qwen3_5_moe_text"})");
  for (const auto& [key, value] : {std::pair("vocab_size", "248320"), {"base_emb_dim", "2048"}, {"base_num_decoder_layers", "40"},
                                   {"base_num_query_heads", "16"}, {"base_num_kv_heads", "2"}, {"head_dim", "256"}, {"num_experts", "256"},
                                   {"num_experts_per_tok", "8"}, {"base_moe_mlp_dim", "512"}, {"shared_expert_mlp_dim", "512"},
                                   {"gdn_num_key_heads", "16"}, {"gdn_num_value_heads", "32"}, {"gdn_key_head_dim", "128"},
                                   {"gdn_value_head_dim", "128"}, {"gdn_conv_kernel_dim", "4"}, {"inhomogeneous_layer_cycle_interval", "4"},
                                   {"partial_rotary_factor", "0.25"}, {"routed_weights", "normalized"}, {"logits_via_embedding", "false"}})
    EXPECT_EQ(keys[key], value) << key;
}

TEST(HuggingFaceDefaults, Qwen35HasGatesAndNothingElse) {
  const auto refused = [](const std::string& more) {
    return test::message_of([&] { given(R"({"model_type": "qwen3_5_moe_text")" + more + "}"); });
  };
  EXPECT_EQ(refused(R"(, "attn_output_gate": true, "output_gate_type": "swish", "mamba_ssm_dtype": "float32", "mtp_num_hidden_layers": 1)"),
            "no error");
  EXPECT_THAT(refused(R"(, "attn_output_gate": false)"), HasSubstr("attn_output_gate"));
  EXPECT_THAT(refused(R"(, "output_gate_type": "sigmoid")"), HasSubstr("swish was expected"));
}

TEST(HuggingFaceDefaults, Qwen2WithExpertsHasBiases) {
  const auto bias = [](const std::string& more) {
    return given(
        sparse_file("qwen2_moe", "Qwen2MoeForCausalLM", 2,
                    R"(, "num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 32, "shared_expert_intermediate_size": 32)" +
                        more))["attention_bias"];
  };
  EXPECT_EQ(bias(""), "true");
  EXPECT_EQ(bias(R"(, "qkv_bias": false)"), "false");
}

TEST(HuggingFaceDefaults, NoMoreLayersAreDenseThanThereAre) {
  const auto dense = [](int first) {
    return given(
        sparse_file("deepseek_v3", "DeepseekV3ForCausalLM", 4,
                    fmt::format(R"(, "n_routed_experts": 8, "n_shared_experts": 1, "num_experts_per_tok": 2, "moe_intermediate_size": 32,
                                            "q_lora_rank": 24, "kv_lora_rank": 16, "qk_nope_head_dim": 16, "qk_rope_head_dim": 8,
                                            "v_head_dim": 16, "n_group": 1, "topk_group": 1,
                                            "first_k_dense_replace": {})",
                                first)))["first_num_dense_layers"];
  };
  EXPECT_EQ(dense(3), "3");
  EXPECT_EQ(dense(9), "4");
}

TEST(HuggingFaceDefaults, Llama4MayListMoreLayersThanItHas) {
  const std::string listed = R"(, "num_key_value_heads": 2, "intermediate_size_mlp": 96, "num_local_experts": 4, "num_experts_per_tok": 1,
                                  "no_rope_layers": [0, 1, 1, 0, 1, 1])";
  EXPECT_EQ(given(sparse_file("llama4_text", "Llama4ForCausalLM", 4, listed))["layer_positions"], "[none,rotary,rotary,none]");
}

std::string gemma4_file(int layers, const std::string& more) {
  return sparse_file("gemma4_text", "Gemma4ForCausalLM", layers, R"(, "num_key_value_heads": 2, "hidden_size_per_layer_input": 0)" + more);
}

TEST(HuggingFaceDefaults, TheLastLayerOfGemma4SeesAll) {
  EXPECT_EQ(given(gemma4_file(5, ""))["layer_attention"], "[sliding,sliding,sliding,sliding,full]");
  const std::string listed = R"(, "layer_types": ["full_attention", "sliding_attention", "sliding_attention"])";
  EXPECT_EQ(given(gemma4_file(3, listed))["layer_attention"], "[full,sliding,full]");
}

TEST(HuggingFaceDefaults, Gemma4HasItsGlobalKeyHeadsOnlyIfTheyAreValuesToo) {
  const std::string heads = R"(, "num_global_key_value_heads": 1)";
  EXPECT_EQ(given(gemma4_file(6, heads))["global_num_kv_heads"], "0");
  EXPECT_EQ(given(gemma4_file(6, heads + R"(, "attention_k_eq_v": true)"))["global_num_kv_heads"], "1");
}

TEST(HuggingFaceDefaults, Gemma4sLayersHaveTheHeadsOfAllUnlessTheyHaveTheirOwn) {
  EXPECT_EQ(given(gemma4_file(6, R"(, "head_dim": 16, "per_layer_config": {"5": {"num_key_value_heads": 1}})"))["global_head_dim"], "16");
  EXPECT_EQ(given(gemma4_file(6, R"(, "head_dim": 16, "per_layer_config": {"5": {"head_dim": 32}})"))["global_head_dim"], "32");
}

TEST(HuggingFaceDefaults, Gemma3sPatternIsReadByOneName) {
  const auto file = [](const std::string& more) {
    return sparse_file("gemma3_text", "Gemma3ForCausalLM", 4, R"(, "num_key_value_heads": 2)" + more);
  };
  EXPECT_EQ(given(file(R"(, "sliding_window_pattern": 2)"))["layer_attention"], "[sliding,full]");
  EXPECT_EQ(given(file(R"(, "sliding_window_pattern": 2, "_sliding_window_pattern": 4)"))["layer_attention"], "[sliding,full]");
  EXPECT_EQ(given(file(R"(, "_sliding_window_pattern": 6)"))["layer_attention"], "[sliding]");
  EXPECT_THAT(test::message_of([&] { given(file(R"(, "_sliding_window_pattern": 2)")); }),
              HasSubstr("sliding_window_pattern, which transformers reads instead, or layer_types was expected"));
}

}  // namespace
}  // namespace moesh::config
