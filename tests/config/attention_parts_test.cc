// Biases and norms of attention: which families heed the keys that ask for them.
#include "config/attention_parts.h"

#include <set>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "config/load.h"
#include "config/model_shape.h"
#include "tests/config/family_presets.h"
#include "tests/support.h"

namespace moesh::config {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

const std::string kBoth = "attention_bias=true use_qk_norm=true ", kNeither = "attention_bias=false use_qk_norm=false ";

const std::set<std::string> kHeedBias{"gpt_oss", "olmo3", "qwen2", "qwen2_moe"};
const std::set<std::string> kHeedNorms{"envy", "llama4", "olmo3", "qwen2", "qwen2_moe", "qwen3", "qwen3_moe", "qwen3_custom_moe"};
const std::set<std::string> kAlwaysNorm{"gemma3", "gemma4", "qwen3_next", "qwen3_5"};
const std::set<std::string> kNeverNorm{"default", "gpt3", "gemma", "gemma2", "deepseek4", "deepseek"};
const std::set<std::string> kNeverBias{"deepseek", "deepseek4", "qwen3_next", "qwen3_5"};

TEST(AttentionParts, ThereIsAPresetOfEveryFamily) {
  std::set<std::string> all;
  for (const auto& [block, preset] : test::kPresetOfBlock) {
    all.insert(block);
    EXPECT_EQ(load(test::words_of(test::request_of(preset))).settings.text("decoder_block"), block);
  }
  for (const Choice& choice : choices(*find_key("decoder_block"))) {
    EXPECT_TRUE(choice.refused || all.contains(std::string(choice.word))) << choice.word;
  }
}

TEST(AttentionParts, AreThoseOfMaxTextsFamilies) {
  for (const auto& [block, preset] : test::kPresetOfBlock) {
    const std::string request = test::request_of(preset);
    const AttentionShape with = model_shape(load(test::words_of(request + kBoth)).settings).attention;
    const AttentionShape without = model_shape(load(test::words_of(request + kNeither)).settings).attention;
    const bool has_bias = block == "gpt3";
    EXPECT_EQ(with.bias, has_bias || kHeedBias.contains(block)) << block;
    EXPECT_EQ(without.bias, has_bias) << block;
    EXPECT_EQ(with.norm != HeadNorm::none, kAlwaysNorm.contains(block) || kHeedNorms.contains(block)) << block;
    EXPECT_EQ(without.norm != HeadNorm::none, kAlwaysNorm.contains(block)) << block;
  }
}

TEST(AttentionParts, AreThereAnywhereIfTheyAreToBe) {
  for (const auto& [block, preset] : test::kPresetOfBlock) {
    const AttentionShape with =
        model_shape(load(test::words_of(test::request_of(preset) + kBoth + "bias_and_norm_anywhere=true")).settings).attention;
    EXPECT_EQ(with.bias, !kNeverBias.contains(block)) << block;
    EXPECT_EQ(with.norm != HeadNorm::none, !kNeverNorm.contains(block)) << block;
  }
}

TEST(AttentionParts, AreToldOfWhereTheyAreIgnored) {
  for (const auto& [block, preset] : test::kPresetOfBlock) {
    const auto told = [model = test::request_of(preset)](const std::string& words) {
      return join(load(test::words_of(model + words)).notices, "\n");
    };
    const bool is_bias_told = !kHeedBias.contains(block);
    const std::string of_bias = "attention_bias (only with decoder_block=gpt_oss, olmo3, qwen2 or qwen2_moe, as in MaxText)";
    EXPECT_EQ(told("attention_bias=true").find(of_bias) != std::string::npos, is_bias_told) << block;
    EXPECT_THAT(told("attention_bias=false"), Not(HasSubstr("attention_bias"))) << block;
    const bool is_norm_told = told("use_qk_norm=true").find("use_qk_norm") != std::string::npos;
    EXPECT_EQ(is_norm_told, !kHeedNorms.contains(block)) << block << told("use_qk_norm=true");
  }
  EXPECT_THAT(
      load({"model_name=llama2-7b", "use_qk_norm=true"}).notices,
      Contains("use_qk_norm=true changes no layer of decoder_block=llama2, as in MaxText: it says how large query kernels are at first"));
  EXPECT_THAT(load({"model_name=gpt-oss-20b", "use_qk_norm=true"}).notices,
              Contains(HasSubstr("use_qk_norm (only with decoder_block=envy, llama4, olmo3, qwen2, qwen2_moe, qwen3, qwen3_moe or ")));
  EXPECT_THAT(load({"model_name=llama2-7b", "bias_and_norm_anywhere=true"}).notices,
              Contains(HasSubstr("bias_and_norm_anywhere (only with attention_bias=true or use_qk_norm=true, where MaxText ignores it)")));
}

}  // namespace
}  // namespace moesh::config
