// Reads a Hugging Face config.json as settings, and writes settings as a config.json.
#include "config/hugging_face.h"

#include <map>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "config/hugging_face_write.h"
#include "config/load.h"
#include "config/model_facts.h"
#include "config/model_shape.h"
#include "tests/paths.h"
#include "tests/support.h"

namespace moesh::config {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

const std::string kGolden = test::source_folder() / "tests/golden/hf";

std::string body(const std::string& type, const std::string& architecture, const std::string& more) {
  return "{\"model_type\": \"" + type + "\", \"architectures\": [\"" + architecture +
         "\"], \"hidden_size\": 64, \"num_hidden_layers\": 4, \"num_attention_heads\": 4, \"num_key_value_heads\": 2, "
         "\"vocab_size\": 128, \"intermediate_size\": 96, \"max_position_embeddings\": 256" +
         more + "}";
}

std::string llama(const std::string& more) { return body("llama", "LlamaForCausalLM", more); }
const std::string kExperts = R"(, "num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 32)";
std::string qwen(const std::string& more) { return body("qwen3_moe", "Qwen3MoeForCausalLM", kExperts + more); }
std::string deepseek2(const std::string& more) {
  return body("deepseek_v2", "DeepseekV2ForCausalLM",
              R"(, "n_routed_experts": 8, "n_shared_experts": 2, "num_experts_per_tok": 2, "moe_intermediate_size": 32,
                 "kv_lora_rank": 16, "qk_nope_head_dim": 16, "qk_rope_head_dim": 8, "v_head_dim": 16, "first_k_dense_replace": 1)" +
                  more);
}
std::string deepseek3(const std::string& more) {
  return body(
      "deepseek_v3", "DeepseekV3ForCausalLM",
      R"(, "n_routed_experts": 8, "n_shared_experts": 1, "num_experts_per_tok": 2, "moe_intermediate_size": 32, "q_lora_rank": 24,
                 "kv_lora_rank": 16, "qk_nope_head_dim": 16, "qk_rope_head_dim": 8, "v_head_dim": 16, "first_k_dense_replace": 1,
                 "n_group": 4, "topk_group": 2, "routed_scaling_factor": 2.5)" +
          more);
}

std::string glm4_moe(const std::string& more) {
  return body("glm4_moe", "Glm4MoeForCausalLM",
              R"(, "n_routed_experts": 8, "n_shared_experts": 1, "num_experts_per_tok": 2, "moe_intermediate_size": 32,
                 "first_k_dense_replace": 1, "n_group": 1, "topk_group": 1, "routed_scaling_factor": 1.5)" +
                  more);
}

std::map<std::string, std::string> keys_of(const std::string& text) {
  std::map<std::string, std::string> keys;
  for (const HuggingFaceKey& key : hugging_face_keys_in(text, "config.json")) keys[key.key] = key.value;
  return keys;
}

std::string refused(const std::string& text) {
  return test::message_of([&] { keys_of(text); });
}

Settings settings_in(const std::string& text) {
  const test::TemporaryFolder folder;
  folder.write("config.json", text);
  return load({"model_name=" + folder.path()}).settings;
}

TEST(HuggingFace, NewerAndOlderSpellingsAreTheSameModel) {
  for (const char* name : {"llama", "gpt-oss-bf16", "gemma3"}) {
    const std::string folder = kGolden + "/" + name;
    const auto newer = model_facts(load({"model_name=" + folder}).settings);
    EXPECT_EQ(newer, model_facts(load({"model_name=" + folder + "/config.hub.json"}).settings)) << name;
    EXPECT_EQ(newer.at("layer_mlp").starts_with("moe"), std::string(name) == "gpt-oss-bf16");
  }
}

TEST(HuggingFace, SizesAreThoseOfAPreset) {
  const ModelShape shape = model_shape(settings_in(llama(R"(, "rms_norm_eps": 1e-06, "tie_word_embeddings": true)")));
  EXPECT_EQ(shape.emb_dim, 64);
  EXPECT_EQ(shape.layers, 4);
  EXPECT_EQ(shape.attention.head_dim, 16);
  EXPECT_EQ(shape.attention.kv_heads, 2);
  EXPECT_DOUBLE_EQ(shape.attention.score_scale, 0.25);
  EXPECT_DOUBLE_EQ(shape.norm_epsilon, 1e-6);
  EXPECT_TRUE(shape.tied_embedding);
}

TEST(HuggingFace, AFolderIsNamedByItsWholePath) {
  const test::TemporaryFolder folder;
  std::filesystem::create_directory(folder.path() + "/llama3.1-mine");
  folder.write("llama3.1-mine/config.json", llama(""));
  const test::WorkingFolder here(folder.path());
  const Settings settings = load({"model_name=llama3.1-mine"}).settings;
  EXPECT_THAT(settings.text("model_name"), ::testing::EndsWith("/llama3.1-mine"));
  EXPECT_FALSE(uses_llama3_rope(settings)) << "a name is none of MaxText's models";
}

TEST(HuggingFace, OverridesContradictItAsTheyDoAPreset) {
  EXPECT_THAT(test::message_of([] {
                load({"model_name=" + kGolden + "/llama", "base_emb_dim=32"});
              }),
              HasSubstr("base_emb_dim=32 contradicts"));
}

TEST(HuggingFace, LayersThatTakeTurnsAreTheShortestCycle) {
  auto keys = keys_of(qwen(R"(, "mlp_only_layers": [0, 2])"));
  EXPECT_EQ(keys["inhomogeneous_layer_cycle_interval"], "2");
  EXPECT_EQ(keys["layer_mlp"], "[dense,moe]");
  EXPECT_FALSE(keys.contains("layer_attention"));
  keys = keys_of(qwen(R"(, "mlp_only_layers": [1])"));
  EXPECT_EQ(keys["layer_mlp"], "[moe,dense,moe,moe]");
  keys = keys_of(qwen(R"(, "decoder_sparse_step": 2)"));
  EXPECT_EQ(keys["layer_mlp"], "[dense,moe]");
  const std::string window = R"(, "use_sliding_window": true, "sliding_window": 7, "max_window_layers": 3)";
  const std::string shared = kExperts + R"(, "shared_expert_intermediate_size": 80)";
  EXPECT_EQ(keys_of(body("qwen3", "Qwen3ForCausalLM", window))["layer_attention"], "[full,full,full,sliding]");
  EXPECT_EQ(keys_of(body("qwen2_moe", "Qwen2MoeForCausalLM", shared + window))["layer_attention"], "[sliding,full]");
  EXPECT_EQ(keys_of(qwen(window))["layer_attention"], "[sliding]") << "whatever max_window_layers says";
  EXPECT_EQ(keys_of(qwen(window + R"(, "layer_types": ["full_attention"])"))["layer_attention"], "[sliding]");
  keys = keys_of(body("mistral", "MistralForCausalLM", R"(, "sliding_window": 9)"));
  EXPECT_EQ(keys["layer_attention"], "[sliding]");
  EXPECT_EQ(keys["sliding_window_size"], "9");
}

TEST(HuggingFace, RoutingIsTheFamilysOwn) {
  EXPECT_EQ(keys_of(qwen(R"(, "norm_topk_prob": true)"))["routed_weights"], "normalized");
  EXPECT_EQ(keys_of(qwen(""))["routed_weights"], "scores");
  auto keys = keys_of(
      deepseek2(R"(, "topk_method": "group_limited_greedy", "n_group": 4, "topk_group": 2, "norm_topk_prob": true)"));
  EXPECT_EQ(keys["routing_group_score"], "best");
  EXPECT_EQ(keys["routed_weights"], "scores") << "this family ignores norm_topk_prob";
  keys = keys_of(deepseek3(""));
  EXPECT_EQ(keys["routing_group_score"], "best_two");
  EXPECT_EQ(keys["routed_weights"], "normalized");
  EXPECT_EQ(keys_of(deepseek3(R"(, "norm_topk_prob": false)"))["routed_weights"], "scores");
}

TEST(HuggingFace, GemmasLayersTurnByTheirKind) {
  const std::string sizes = R"(, "head_dim": 24, "query_pre_attn_scalar": 16, "sliding_window": 7)";
  auto older = keys_of(
      body("gemma3_text", "Gemma3ForCausalLM", sizes + R"(, "rope_theta": 1000000.0, "rope_local_base_freq": 10000.0,
                            "rope_scaling": {"rope_type": "linear", "factor": 8.0}, "sliding_window_pattern": 2)"));
  auto newer = keys_of(body("gemma3_text", "Gemma3ForCausalLM", sizes + R"(, "rope_parameters": {
                            "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
                            "full_attention": {"rope_type": "linear", "rope_theta": 1000000.0, "factor": 8.0}},
                            "layer_types": ["sliding_attention", "full_attention", "sliding_attention", "full_attention"])"));
  for (const auto& keys : {older, newer}) {
    EXPECT_EQ(keys.at("rope_max_timescale"), "1000000");
    EXPECT_EQ(keys.at("local_rope_max_timescale"), "10000");
    EXPECT_EQ(keys.at("rope_linear_scaling_factor"), "8");
    EXPECT_EQ(keys.at("layer_attention"), "[sliding,full]");
    EXPECT_EQ(keys.at("attention_score_scale"), "0.25");
    EXPECT_EQ(keys.at("logits_via_embedding"), "true") << "tied unless it says otherwise";
  }
}

std::string llama4(const std::string& more) {
  return body("llama4_text", "Llama4ForCausalLM",
              R"(, "intermediate_size_mlp": 96, "num_local_experts": 4, "num_experts_per_tok": 1)" + more);
}

TEST(HuggingFace, LayersOfLlama4SeeChunksWhereTheyHavePositions) {
  auto keys = keys_of(llama4(""));
  EXPECT_EQ(keys["layer_positions"], "[rotary,rotary,rotary,none]");
  EXPECT_EQ(keys["layer_attention"], "[chunked,chunked,chunked,full]");
  EXPECT_EQ(keys["layer_mlp"], "[moe,moe,moe,moe]");
  EXPECT_EQ(keys["chunk_attn_window_size"], "8192");
  EXPECT_EQ(keys["temperature_tuning"], "true");
  EXPECT_EQ(keys["base_mlp_dim"], "96");
  EXPECT_EQ(keys["rope_type"], "llama3.1") << "neighbours turn";
  EXPECT_EQ(keys["rope_use_scale"], "false");
  keys = keys_of(llama4(R"(, "no_rope_layers": [0, 1, 0, 1], "interleave_moe_layer_step": 2, "attention_chunk_size": 6)"));
  EXPECT_EQ(keys["layer_positions"], "[none,rotary]");
  EXPECT_EQ(keys["layer_attention"], "[full,chunked]");
  EXPECT_EQ(keys["layer_mlp"], "[dense,moe]");
  EXPECT_EQ(model_shape(settings_in(llama4(R"(, "no_rope_layer_interval": 1)"))).mlp_dim, 96) << "though no layer is dense";
  EXPECT_EQ(keys_of(llama4(R"(, "moe_layers": [0, 1])"))["layer_mlp"], "[moe,moe,dense,dense]");
  EXPECT_THAT(refused(llama4(R"(, "moe_layers": [4])")), HasSubstr("moe_layers: [4] asks for what moesh does not do: numbers of layers"));
  EXPECT_THAT(refused(llama4(R"(, "no_rope_layers": [1])")), HasSubstr("no_rope_layers: [1] asks for what moesh does not do: 4 numbers"));
  EXPECT_THAT(refused(llama4(R"(, "layer_types": ["sliding_attention", "full_attention", "full_attention", "full_attention"])")),
              HasSubstr("chunked_attention and full_attention was expected"));
  keys = keys_of(llama4(R"(, "rope_scaling": {"rope_type": "linear", "factor": 2.0})"));
  EXPECT_EQ(keys["llama3_rope_factor"], "2");
  EXPECT_EQ(keys["llama3_low_freq_factor"], "1000000000") << "all frequencies are low";
}

std::string seeing(const std::string& type, const std::string& architecture, const std::string& text, const std::string& more = "") {
  return "{\"model_type\": \"" + type + "\", \"architectures\": [\"" + architecture + "\"], \"text_config\": " + text +
         R"(, "vision_config": {"hidden_size": 16}, "image_token_index": 7, "torch_dtype": "bfloat16")" + more + "}";
}

std::string seeing_llama4(const std::string& text, const std::string& more = "") {
  return seeing("llama4", "Llama4ForConditionalGeneration", text, more);
}

TEST(HuggingFace, OfAModelThatSeesImagesTheTextIsRead) {
  const std::string mistral = body("mistral", "MistralForCausalLM", R"(, "sliding_window": 9)");
  const std::string gemma3 = body("gemma3_text", "Gemma3ForCausalLM", R"(, "head_dim": 24)");
  EXPECT_EQ(keys_of(seeing_llama4(llama4(""))), keys_of(llama4("")));
  EXPECT_EQ(keys_of(seeing("gemma3", "Gemma3ForConditionalGeneration", gemma3, R"(, "mm_tokens_per_image": 4)")), keys_of(gemma3));
  EXPECT_EQ(keys_of(seeing("mistral3", "Mistral3ForConditionalGeneration", mistral, R"(, "spatial_merge_size": 2)")), keys_of(mistral));
}

// The config.json as its makers publish it, which leaves most sizes to the library's defaults.
TEST(HuggingFace, OfGemma3sTextMostSizesAreUsual) {
  auto keys = keys_of(seeing("gemma3", "Gemma3ForConditionalGeneration", R"({"hidden_size": 2560, "intermediate_size": 10240,
                              "model_type": "gemma3_text", "num_hidden_layers": 34, "rope_scaling": {"factor": 8.0, "rope_type": "linear"},
                              "sliding_window": 1024})"));
  EXPECT_EQ(keys["base_emb_dim"], "2560");
  EXPECT_EQ(keys["base_num_query_heads"], "8");
  EXPECT_EQ(keys["base_num_kv_heads"], "4");
  EXPECT_EQ(keys["head_dim"], "256");
  EXPECT_EQ(keys["vocab_size"], "262208");
  EXPECT_EQ(keys["sliding_window_size"], "1024");
  EXPECT_EQ(keys["max_position_embeddings"], "131072");
  EXPECT_EQ(keys["logits_via_embedding"], "true");
}

TEST(HuggingFace, WhetherTheTextIsTiedMayBeSaidBesideIt) {
  EXPECT_EQ(keys_of(seeing_llama4(llama4(""), R"(, "tie_word_embeddings": true)"))["logits_via_embedding"], "true");
  EXPECT_EQ(keys_of(seeing_llama4(llama4(R"(, "tie_word_embeddings": true)")))["logits_via_embedding"], "true");
  EXPECT_THAT(refused(seeing_llama4(llama4(R"(, "tie_word_embeddings": false)"), R"(, "tie_word_embeddings": true)")),
              HasSubstr("config.json: tie_word_embeddings is true here and false in text_config"));
}

TEST(HuggingFace, OfAModelThatSeesImagesWhatIsNotKnownIsRefused) {
  EXPECT_THAT(refused(seeing_llama4(llama4(R"(, "mlp_bias": 3)"))), HasSubstr("config.json: text_config: mlp_bias: a key that moesh does not know"));
  EXPECT_THAT(refused(seeing_llama4(llama4(""), R"(, "audio_config": {"hidden_size": 8})")), HasSubstr("config.json: audio_config: a key"));
  EXPECT_THAT(refused(seeing_llama4(llama(""))), HasSubstr("config.json: text_config: model_type: \"llama\" asks for what moesh does not do"));
  EXPECT_THAT(refused(seeing_llama4("7")), HasSubstr("config.json: text_config: an object of keys and values was expected"));
  EXPECT_THAT(refused(seeing("llama4", "Llama4ForCausalLM", llama4(""))), HasSubstr("Llama4ForConditionalGeneration was expected"));
  EXPECT_THAT(refused(seeing_llama4(llama4(""), R"(, "quantization_config": {"quant_method": "compressed-tensors"})")),
              HasSubstr("quantised as 'compressed-tensors', fp8 or mxfp4 was expected"));
  EXPECT_THAT(refused(seeing("gemma5", "Gemma5ForConditionalGeneration", "{}")),
              HasSubstr("model_type 'gemma5' is an architecture that moesh does not know"));
  EXPECT_THAT(refused(body("bert", "BertModel", "")), HasSubstr(", and the text of llama4, mistral3, qwen3_5_moe, gemma3, gemma4"));
  EXPECT_THAT(refused(R"({"model_type": ""})"), HasSubstr("model_type '' is an architecture"));
}

std::string gemma4(const std::string& more) {
  return body("gemma4_text", "Gemma4ForCausalLM", R"(, "hidden_size_per_layer_input": 0, "head_dim": 16)" + more);
}

TEST(HuggingFace, OfGemma4WhatFilesLeaveOutIsUsual) {
  auto keys = keys_of(gemma4(""));
  EXPECT_EQ(keys["global_head_dim"], "512");
  EXPECT_EQ(keys["global_num_kv_heads"], "0");
  EXPECT_EQ(keys["global_rope_proportion"], "0.25");
  EXPECT_EQ(keys["rope_max_timescale"], "1000000");
  EXPECT_EQ(keys["local_rope_max_timescale"], "10000");
  EXPECT_EQ(keys["share_kv_projections"], "false");
  EXPECT_EQ(keys["logits_via_embedding"], "true");
  EXPECT_EQ(keys["sliding_window_size"], "512");
}

// Newer files list for each layer only what differs from the model's general values.
TEST(HuggingFace, OfGemma4HeadsAreReadFromOlderAndNewerFiles) {
  const std::string types = R"(, "num_hidden_layers": 2, "layer_types": ["sliding_attention", "full_attention"], "attention_k_eq_v": true)";
  auto older = keys_of(gemma4(types + R"(, "global_head_dim": 32, "num_global_key_value_heads": 1)"));
  auto newer = keys_of(gemma4(types + R"(, "per_layer_config": {"1": {"head_dim": 32, "num_key_value_heads": 1}})"));
  for (const char* key : {"global_head_dim", "global_num_kv_heads", "layer_attention", "share_kv_projections"}) EXPECT_EQ(older[key], newer[key]) << key;
  EXPECT_EQ(newer["global_head_dim"], "32");
  EXPECT_EQ(newer["global_num_kv_heads"], "1");
  EXPECT_EQ(newer["layer_attention"], "[sliding,full]");
  const std::string padded = R"(, "num_hidden_layers": 12, "per_layer_config": {"05": {"head_dim": 32}, "11": {"head_dim": 32}})";
  EXPECT_EQ(keys_of(gemma4(padded))["global_head_dim"], "32");
}

TEST(HuggingFace, OfGemma4WhatIsNotDoneIsRefused) {
  EXPECT_THAT(refused(gemma4(R"(, "num_kv_shared_layers": 2)")), HasSubstr("num_kv_shared_layers"));
  EXPECT_THAT(refused(gemma4(R"(, "use_bidirectional_attention": "all")")), HasSubstr("null, or \"vision\" was expected"));
  EXPECT_THAT(refused(body("gemma4_text", "Gemma4ForCausalLM", "")),
              HasSubstr("hidden_size_per_layer_input is missing, which stands for embeddings of width 256 in each layer"));
  EXPECT_THAT(refused(body("gemma4_text", "Gemma4ForCausalLM", R"(, "hidden_size_per_layer_input": 8)")),
              HasSubstr("hidden_size_per_layer_input"));
  EXPECT_THAT(refused(gemma4(R"(, "per_layer_config": {"first": {"head_dim": 32}})")), HasSubstr("the number of a layer as each key"));
  EXPECT_THAT(refused(gemma4(R"(, "per_layer_config": {"1": {"head_dim": 32}, "01": {"head_dim": 32}})")),
              HasSubstr("the number of a layer"));
  EXPECT_THAT(refused(gemma4(R"(, "per_layer_config": {"0": {"head_dim": 32}})")),
              HasSubstr("an object for each layer with full_attention was expected"));
  EXPECT_THAT(refused(gemma4(R"(, "num_hidden_layers": 12, "per_layer_config": {"5": {"head_dim": 32}, "11": {"head_dim": 64}})")),
              HasSubstr("the same for all layers with full_attention was expected"));
  EXPECT_THAT(refused(gemma4(R"(, "rope_parameters": {"full_attention": {"rope_type": "yarn"}})")),
              HasSubstr("proportional, or default was expected"));
  EXPECT_THAT(refused(gemma4(R"(, "rope_parameters": {"full_attention": {"rope_type": "proportional", "factor": 8.0}})")),
              HasSubstr("rope_parameters.full_attention.factor"));
}

TEST(HuggingFace, OlmosLayersWithAWindowAreNotStretched) {
  auto keys = keys_of(body("olmo3", "Olmo3ForCausalLM", R"(, "rope_theta": 500000.0, "rope_scaling": {"rope_type": "yarn", "factor": 8.0,
                                                            "original_max_position_embeddings": 64})"));
  EXPECT_EQ(keys["layer_attention"], "[sliding,sliding,sliding,full]");
  EXPECT_EQ(keys["local_rope_max_timescale"], "500000");
  EXPECT_EQ(keys["rope_type"], "yarn");
}

TEST(HuggingFace, WhatIsUsualIsSaidWhereAFamilyHasWaysOfItsOwn) {
  const std::string full = R"(, "layer_types": ["full_attention", "full_attention", "full_attention", "full_attention"])";
  EXPECT_EQ(keys_of(body("gemma2", "Gemma2ForCausalLM", full))["layer_attention"], "[full]");
  EXPECT_EQ(keys_of(body("olmo3", "Olmo3ForCausalLM", full))["layer_attention"], "[full]");
  EXPECT_FALSE(keys_of(qwen(full)).contains("layer_attention"));
}

TEST(HuggingFace, GemmasNormsMultiplyByOneMoreThanTheirScales) {
  auto keys = keys_of(body("gemma", "GemmaForCausalLM", R"(, "head_dim": 16, "hidden_act": "gelu", "hidden_activation": null)"));
  EXPECT_EQ(keys["norm_scales_above_one"], "true");
  EXPECT_EQ(keys["scale_embeddings"], "true");
  EXPECT_EQ(keys["mlp_activations"], "[gelu,linear]");
  EXPECT_EQ(keys["attention_score_scale"], "0.25");
  EXPECT_EQ(keys["logits_via_embedding"], "true");
  EXPECT_THAT(refused(body("gemma", "GemmaForCausalLM", R"(, "hidden_act": "silu")")), HasSubstr("gelu or gelu_pytorch_tanh was expected"));
}

TEST(HuggingFace, PositionsAreStretchedAsTheFileSays) {
  auto keys = keys_of(
      llama(R"(, "rope_theta": 500000.0, "rope_scaling": {"rope_type": "llama3", "factor": 32.0, "low_freq_factor": 1.0,
                                "high_freq_factor": 4.0, "original_max_position_embeddings": 8192})"));
  EXPECT_EQ(keys["rope_type"], "llama3.1");
  EXPECT_EQ(keys["llama3_rope_factor"], "32");
  EXPECT_EQ(keys["rope_max_timescale"], "500000");
  keys = keys_of(llama(R"(, "rope_parameters": {"rope_type": "linear", "rope_theta": 10000.0, "factor": 2.5})"));
  EXPECT_EQ(keys["rope_linear_scaling_factor"], "2.5");
  keys = keys_of(llama(R"(, "rope_scaling": {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64})"));
  EXPECT_NEAR(std::stod(keys["rope_attention_factor"]), 0.1 * std::log(4.0) + 1, 1e-12);
  EXPECT_EQ(keys["rope_interleave"], "false");
  keys = keys_of(deepseek3(R"(, "rope_scaling": {"type": "yarn", "factor": 40, "mscale": 1.0, "mscale_all_dim": 1.0,
                                "original_max_position_embeddings": 64})"));
  const double correction = 0.1 * std::log(40.0) + 1;
  EXPECT_DOUBLE_EQ(std::stod(keys["attention_score_scale"]), correction * correction / std::sqrt(24.0));
  EXPECT_EQ(keys["rope_attention_factor"], "1");
  EXPECT_EQ(keys["mla_norm_epsilon"], "1e-06");
}

// Weights of these families are taken as they are, so the model has to rotate as theirs does, however frequencies are scaled.
TEST(HuggingFace, NeighboursAreRotatedWhereAFamilyRotatesThem) {
  const std::string halves = R"(, "rope_interleave": false)";
  for (
      const std::string scaling :
      {R"({"rope_type": "default"})", R"({"rope_type": "linear", "factor": 4.0})",
       R"({"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64})",
       R"({"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 64})"}) {
    const std::string older = R"(, "rope_scaling": )" + scaling, newer = R"(, "rope_parameters": )" + scaling;
    for (const std::string& rope : {older, newer, std::string()}) {
      for (const std::string& text : {deepseek2(rope), deepseek3(rope), llama4(rope)})
        EXPECT_TRUE(rope_is_interleaved(settings_in(text))) << text;
      const std::string turned = deepseek3(halves + rope);
      if (rope.find("llama3") == std::string::npos)
        EXPECT_FALSE(rope_is_interleaved(settings_in(turned))) << turned;
      else
        EXPECT_THAT(refused(turned), HasSubstr("rope_interleave: false asks for what moesh does not do: true"));
    }
  }
}

// What some files say though the family leaves no choice.
TEST(HuggingFace, WhatAFamilyAlwaysHasMayBeSaid) {
  EXPECT_EQ(refused(body("qwen2", "Qwen2ForCausalLM", R"(, "attention_bias": true)")), "no error");
  EXPECT_THAT(refused(body("qwen2", "Qwen2ForCausalLM", R"(, "attention_bias": false)")), HasSubstr("true was expected"));
  EXPECT_EQ(refused(qwen(R"(, "use_qk_norm": true)")), "no error");
  EXPECT_THAT(refused(body("qwen3", "Qwen3ForCausalLM", R"(, "use_qk_norm": false)")), HasSubstr("true was expected"));
}

TEST(HuggingFace, KimiIsADeepseek) {
  std::string kimi = deepseek3("");
  EXPECT_EQ(keys_of(kimi.replace(kimi.find("deepseek_v3"), 11, "kimi_k2")), keys_of(deepseek3("")));
}

TEST(HuggingFace, ScalingBesideTheKindsOfLayersMeansNothing) {
  auto keys = keys_of(body("olmo3", "Olmo3ForCausalLM", R"(, "rope_parameters": {"rope_type": "yarn", "rope_theta": 7.0, "factor": 8.0,
      "full_attention": {"rope_type": "default", "rope_theta": 500000.0}, "sliding_attention": {"rope_type": "default"}})"));
  EXPECT_EQ(keys["rope_type"], "default");
  EXPECT_EQ(keys["rope_max_timescale"], "500000");
}

TEST(HuggingFace, AWidthThatNoLayerHasIsNotAsked) {
  for (const std::string& text : {deepseek2(R"(, "first_k_dense_replace": 0)"), deepseek3(R"(, "first_k_dense_replace": 0)"),
                                  glm4_moe(R"(, "first_k_dense_replace": 0)"), qwen("")}) {
    EXPECT_EQ(model_shape(settings_in(text)).moe.mlp_dim, 32) << text;
  }
}

TEST(HuggingFace, RefusesWhatItDoesNotKnowByItsName) {
  EXPECT_THAT(refused(body("bert", "BertModel", "")),
              HasSubstr("config.json: model_type 'bert' is an architecture that moesh does not know"));
  EXPECT_THAT(refused(body("bert", "BertModel", "")), HasSubstr("it knows llama, llama4_text, mistral, mixtral,"));
  EXPECT_THAT(refused(body("llama", "LlamaForSequenceClassification", "")),
              HasSubstr("config.json: architectures: [\"LlamaForSequenceClassification\"] asks for what moesh does not "
                        "do: LlamaForCausalLM was expected"));
  EXPECT_THAT(refused(llama(R"(, "mlp_bias": true)")),
              HasSubstr("config.json: mlp_bias: true asks for what moesh does not do: false was expected"));
  EXPECT_THAT(refused(llama(R"(, "attention_dropout": 0.1)")), HasSubstr("attention_dropout: 0.1 asks for what moesh does not do: 0 was expected"));
  EXPECT_THAT(refused(llama(R"(, "residual_multiplier": 0.2)")),
              HasSubstr("config.json: residual_multiplier: a key that moesh does not know, set to 0.2"));
  EXPECT_THAT(refused(llama(R"(, "rope_scaling": {"type": "dynamic", "factor": 2.0})")),
              HasSubstr("config.json: rope_scaling.rope_type: rope_type 'dynamic', one of default, linear, llama3, "
                        "yarn was expected"));
  EXPECT_THAT(refused(llama(R"(, "rope_scaling": {"type": "linear", "factor": 2.0, "long_factor": [1.0]})")),
              HasSubstr("config.json: rope_scaling.long_factor: a key that moesh does not know"));
  EXPECT_THAT(
      refused(llama(R"(, "quantization_config": {"quant_method": "gptq"})")),
      HasSubstr("config.json: quantization_config.quant_method: quantised as 'gptq', fp8 or mxfp4 was expected"));
  EXPECT_THAT(refused(llama(R"(, "hidden_act": "gelu")")), HasSubstr("hidden_act: \"gelu\" asks for"));
  EXPECT_EQ(refused(llama(R"(, "torch_dtype": "float16", "_name_or_path": "here", "sliding_window": null)")),
            "no error");
}

TEST(HuggingFace, RefusesValuesOfOtherKinds) {
  EXPECT_THAT(refused("[1]"), HasSubstr("'model_type' is missing"));
  EXPECT_THAT(refused(R"({"model_type": "llama"})"),
              HasSubstr("config.json: hidden_size: it is missing, a whole number was expected"));
  EXPECT_THAT(refused(llama(R"(, "rms_norm_eps": "small")")),
              HasSubstr("config.json: rms_norm_eps: \"small\", a number was expected"));
  EXPECT_THAT(refused(llama(R"(, "rope_parameters": 7)")),
              HasSubstr("config.json: rope_parameters.: an object of keys and values was expected"));
  EXPECT_THAT(refused(body("qwen3", "Qwen3ForCausalLM", R"(, "layer_types": ["full_attention"])")), HasSubstr("4 words was expected"));
  EXPECT_THAT(test::message_of([] { settings_in(llama(R"(, "hidden_size": -1)")); }), Not(HasSubstr("no error")));
}

TEST(HuggingFace, CyclesThatContradictThemselvesAreRefused) {
  const auto refused_by = [](const std::string& words) {
    return test::message_of([&] { model_shape(load(test::words_of(words)).settings); });
  };
  EXPECT_THAT(refused_by("layer_attention=[sliding,full] sliding_window_size=4"),
              HasSubstr("layer_attention has 2 words, for cycles of 1 layer"));
  EXPECT_THAT(refused_by("layer_attention=[local] sliding_window_size=4"),
              HasSubstr("layer_attention holds 'local', full or sliding or chunked was expected"));
  EXPECT_THAT(refused_by("layer_attention=[chunked]"), HasSubstr("layers see chunks of the sequence, and chunk_attn_window_size is 0"));
  EXPECT_THAT(refused_by("layer_positions=[learned]"), HasSubstr("layer_positions holds 'learned', rotary or none was expected"));
  EXPECT_THAT(refused_by("model_name=deepseek3-tiny fused_qkv=true"), HasSubstr("fused_qkv is no part of attention_type=mla"));
}

// MaxText's layers of these families ignore the keys, and Hugging Face's do not.
TEST(HuggingFace, BiasesAndNormsAreThereWhereMaxTextIgnoresThem) {
  const std::string bias = R"(, "attention_bias": true)";
  const std::string by_others[] = {llama(bias), body("gemma", "GemmaForCausalLM", bias), body("qwen3", "Qwen3ForCausalLM", bias), qwen(bias),
                                   llama4(bias), glm4_moe(bias), glm4_moe(R"(, "use_qk_norm": true)")};
  for (const std::string& text : by_others) {
    EXPECT_EQ(keys_of(text)["bias_and_norm_anywhere"], "true") << text;
    const ModelShape shape = model_shape(settings_in(text));
    EXPECT_TRUE(shape.attention.bias || (shape.block == Block::deepseek && shape.attention.norm == HeadNorm::each)) << text;
  }
  const std::string as_in_maxtext[] = {llama(""), body("olmo3", "Olmo3ForCausalLM", bias), body("qwen2", "Qwen2ForCausalLM", ""),
                                       qwen(""), llama4(R"(, "use_qk_norm": true)")};
  for (const std::string& text : as_in_maxtext) EXPECT_FALSE(keys_of(text).contains("bias_and_norm_anywhere")) << text;
}

TEST(HuggingFace, AConfigThatIsWrittenIsReadAsTheSameModel) {
  const std::string yarn = R"(, "rope_scaling": {"type": "yarn", "factor": 40, "mscale": 0.707, "mscale_all_dim": 0.5,
                                "original_max_position_embeddings": 64})";
  const std::string gemma3 = R"(, "sliding_window": 8, "sliding_window_pattern": 3, "rope_local_base_freq": 5000.0,
                                  "rope_scaling": {"rope_type": "linear", "factor": 8.0}, "query_pre_attn_scalar": 48)";
  for (const std::string& text :
       {body("qwen2", "Qwen2ForCausalLM", R"(, "use_sliding_window": true, "sliding_window": 6, "max_window_layers": 2)"),
        body("qwen2_moe", "Qwen2MoeForCausalLM", kExperts + R"(, "shared_expert_intermediate_size": 80, "mlp_only_layers": [1])"),
        glm4_moe(R"(, "use_qk_norm": true, "attention_bias": true)"),
        body("gemma3_text", "Gemma3ForCausalLM", gemma3),
        body("gemma2", "Gemma2ForCausalLM", R"(, "sliding_window": 8, "attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0)"),
        gemma4(R"(, "sliding_window": 8, "attention_k_eq_v": true, "num_global_key_value_heads": 1, "final_logit_softcapping": 30.0)"),
        gemma4(R"(, "enable_moe_block": true, "num_experts": 8, "top_k_experts": 2, "moe_intermediate_size": 16)"),
        body("gemma", "GemmaForCausalLM", R"(, "head_dim": 32, "attention_bias": true)"),
        body("olmo3", "Olmo3ForCausalLM", R"(, "attention_bias": true, "sliding_window": 7)"),
        llama4(""),
        llama4(R"(, "rope_scaling": {"rope_type": "linear", "factor": 2.5})"),
        llama4(R"(, "no_rope_layers": [1, 1, 0, 1], "use_qk_norm": false, "attention_chunk_size": 9, "rope_scaling": {
               "rope_type": "llama3", "factor": 16.0, "low_freq_factor": 1.0, "high_freq_factor": 1.0,
               "original_max_position_embeddings": 64})"),
        llama(R"(, "attention_bias": true)"),
        llama(R"(, "rope_scaling": {"rope_type": "linear", "factor": 2.5})"),
        body("mistral", "MistralForCausalLM", R"(, "sliding_window": 9)"),
        body("qwen3", "Qwen3ForCausalLM", R"(, "head_dim": 32)"),
        qwen(R"(, "mlp_only_layers": [1], "norm_topk_prob": true)"),
        body("qwen3_next", "Qwen3NextForCausalLM",
             kExperts + R"(, "shared_expert_intermediate_size": 80, "head_dim": 32, "linear_num_key_heads": 2, "linear_num_value_heads": 6,
                           "layer_types": ["linear_attention", "full_attention", "linear_attention", "full_attention"])"),
        body("qwen3_5_moe_text", "Qwen3_5MoeForCausalLM",
             kExperts + R"(, "shared_expert_intermediate_size": 80, "linear_num_key_heads": 2, "linear_num_value_heads": 6,
                           "full_attention_interval": 2, "rope_parameters": {"rope_type": "default", "rope_theta": 50000,
                           "partial_rotary_factor": 0.5, "mrope_section": [11, 11, 10], "mrope_interleaved": true})"),
        qwen(R"(, "use_sliding_window": true, "sliding_window": 6)"),
        body("qwen2_moe", "Qwen2MoeForCausalLM",
             kExperts + R"(, "shared_expert_intermediate_size": 80, "use_sliding_window": true, "sliding_window": 6, "max_window_layers": 1)"),
        deepseek2(yarn),
        deepseek3(yarn),
        deepseek3(R"(, "norm_topk_prob": false)"),
        deepseek3(R"(, "first_k_dense_replace": 0)"),
        deepseek2(""),
        deepseek3(R"(, "rope_scaling": {"rope_type": "linear", "factor": 4.0})"),
        deepseek3(R"(, "rope_interleave": false)"),
        llama(R"(, "hidden_act": "relu")")}) {
    const Settings settings = settings_in(text);
    const std::string written = hugging_face_config_of(settings, "float32");
    EXPECT_EQ(model_facts(settings_in(written)), model_facts(settings)) << written;
  }
}

}  // namespace
}  // namespace moesh::config
