// What config.json of Hugging Face means where it leaves a key out, or says more than a model has.
#include <map>
#include <string>

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/text.h"
#include "config/hugging_face.h"
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
                                            "v_head_dim": 16,
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

TEST(HuggingFaceDefaults, Gemma3sPatternHasTwoNames) {
  for (const char* name : {"sliding_window_pattern", "_sliding_window_pattern"})
    EXPECT_EQ(given(sparse_file("gemma3_text", "Gemma3ForCausalLM", 4,
                                fmt::format(R"(, "num_key_value_heads": 2, "{}": 2)", name)))["layer_attention"],
              "[sliding,full]")
        << name;
}

}  // namespace
}  // namespace moesh::config
