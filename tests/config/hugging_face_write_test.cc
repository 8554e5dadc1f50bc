// Which models a config.json of Hugging Face can describe, and that it describes them as they are.
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "config/hugging_face.h"
#include "config/hugging_face_write.h"
#include "config/load.h"
#include "config/model_facts.h"
#include "tests/support.h"

namespace moesh::config {
namespace {

using ::testing::HasSubstr;

std::string written(const std::string& words) { return hugging_face_config_of(load(test::words_of(words)).settings, "float32"); }
std::string refused_by(const std::string& words) {
  return test::message_of([&] { written(words); });
}

TEST(HuggingFaceWrite, AModelThatNoConfigTellsIsRefused) {
  EXPECT_THAT(refused_by("attn_logits_soft_cap=30"),
              HasSubstr("Hugging Face's models of this kind have no attn_logits_soft_cap=30"));
  EXPECT_THAT(refused_by("logits_via_embedding=true"), HasSubstr("have no normalize_embedding_logits=true"));
  EXPECT_THAT(refused_by("model_name=gpt3-52k"), HasSubstr("Hugging Face has no models of decoder_block=gpt3"));
  EXPECT_THAT(refused_by("model_name=gemma-2b"), HasSubstr("have no norm_scales_above_one=false"));
  EXPECT_EQ(refused_by("model_name=llama4-17b-128e"), "no error");
  EXPECT_EQ(refused_by("model_name=qwen2.5-7b"), "no error");
  EXPECT_EQ(refused_by("model_name=llama3.1-8b"), "no error");
  EXPECT_EQ(refused_by("model_name=mixtral-8x7b"), "no error");
  EXPECT_EQ(refused_by("model_name=deepseek3-671b"), "no error");
  EXPECT_EQ(refused_by("model_name=gpt-oss-20b"), "no error");
  EXPECT_EQ(refused_by("model_name=gpt-oss-20b override_model_config=true mlp_activations=[sigmoid]"), "no error")
      << "experts have the first function alone";
  EXPECT_THAT(refused_by("model_name=gpt-oss-20b override_model_config=true mlp_activations=[silu,linear]"),
              HasSubstr("have no mlp_activations=silu"));
  EXPECT_EQ(refused_by("model_name=qwen3-30b-a3b"), "no error");
  EXPECT_EQ(refused_by("model_name=qwen3-next-80b-a3b"), "no error");
}

// Which dims are rotated together, and which keys an indexer takes, change what a model computes and no tensor's shape.
TEST(HuggingFaceWrite, LatentHeadsAreDescribedAsTheyAreOrNotAtAll) {
  const std::string small = "override_model_config=true base_num_decoder_layers=4 ";
  const std::string second = "model_name=deepseek2-16b mla_norm_epsilon=1e-6 " + small, third = "model_name=deepseek3.2-671b " + small;
  EXPECT_EQ(refused_by(second), "no error");
  EXPECT_THAT(refused_by(second + "rope_interleave=false"), HasSubstr("have no rope_interleave=false"));
  EXPECT_THAT(refused_by(second + "rope_type=default max_position_embeddings=4096"), HasSubstr("have no rope_interleave=false"));
  EXPECT_EQ(refused_by(third), "no error");
  EXPECT_THAT(refused_by(third + "rope_interleave=false"), HasSubstr("have no rope_interleave=false"));
  EXPECT_THAT(refused_by(third + "indexer_mask_exact_topk=false"), HasSubstr("have no indexer_mask_exact_topk=false"));
  EXPECT_THAT(refused_by(second + "use_indexer=true q_lora_rank=64"),
              HasSubstr("Hugging Face's models with an indexer have routed_score_func=sigmoid, not softmax"));
  EXPECT_EQ(refused_by("model_name=deepseek3-671b rope_interleave=false " + small), "no error") << "its files say which";
}

// transformers refuses a file of these families whose window is null, and takes their usual one for what is left out.
TEST(HuggingFaceWrite, AWindowThatNoLayerHasIsNotNullWhereOneIsExpected) {
  const std::string experts = " num_experts=4 num_experts_per_tok=2 base_mlp_dim=32 base_moe_mlp_dim=32";
  const std::string full = " layer_attention=[full] base_num_decoder_layers=2 sliding_window_size=0 decoder_block=";
  const std::string norms = " use_post_attn_norm=true use_post_ffw_norm=true norm_scales_above_one=true scale_embeddings=true";
  const std::string plain = " normalize_embedding_logits=false round_tied_embedding=false normalization_layer_epsilon=1e-6";
  const std::string gpt_oss = " rope_type=default attention_sink=true attention_bias=true routed_bias=true mlp_bias=true";
  const std::string gate = " mlp_activations=[sigmoid,linear] mlp_activations_limit=7.0";
  for (const std::string& model : {full + "gpt_oss" + experts + gpt_oss + gate, full + "gemma2" + norms + plain,
                                   full + "gemma3 local_rope_type=default" + norms + plain, full + "olmo3 use_qk_norm=true"}) {
    const std::string text = written(model);
    EXPECT_EQ(text.find("\"sliding_window\""), std::string::npos) << text;
    EXPECT_THAT(text, HasSubstr("\"full_attention\""));
  }
  for (const std::string& model : {std::string("decoder_block=mistral"), std::string("decoder_block=qwen3 use_qk_norm=true"),
                                   std::string("decoder_block=qwen2 attention_bias=true"), "decoder_block=mixtral" + experts})
    EXPECT_THAT(written(model), HasSubstr("\"sliding_window\": null")) << model;
}

TEST(HuggingFaceWrite, LinearAttentionIsOfQwen) {
  for (const auto& [model, type] : {std::pair("qwen3-next-80b-a3b", "qwen3_next"), {"qwen3.5-35b-a3b", "qwen3_5_moe_text"}}) {
    const std::string text = written(std::string("model_name=") + model);
    EXPECT_THAT(text, HasSubstr(fmt::format("\"model_type\": \"{}\"", type)));
    EXPECT_THAT(text, HasSubstr("\"linear_num_value_heads\": 32"));
    EXPECT_THAT(text, HasSubstr("\"full_attention\""));
  }
  EXPECT_THAT(refused_by("model_name=qwen3-next-80b-a3b use_qk_norm_in_gdn=false"), HasSubstr("have no use_qk_norm_in_gdn=false"));
}

}  // namespace
}  // namespace moesh::config
