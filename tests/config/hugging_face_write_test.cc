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
