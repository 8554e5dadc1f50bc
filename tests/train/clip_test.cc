// QK-Clip: weights of heads whose attention scores are too high shrink after each step.
#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/train/train_support.h"
#include "tests/train/trainer_support.h"

namespace moesh {
namespace {

using ::testing::HasSubstr;

// Three layers of latent attention, one of them without experts.
const std::string kLatent =
    test::kTinyModel +
    "model_name=deepseek3-tiny override_model_config=true base_num_decoder_layers=3 first_num_dense_layers=1 base_num_query_heads=4 "
    "base_num_kv_heads=4 q_lora_rank=10 kv_lora_rank=9 qk_nope_head_dim=6 qk_rope_head_dim=4 v_head_dim=5 base_moe_mlp_dim=8 "
    "num_experts=4 num_experts_per_tok=2 n_routing_groups=-1 topk_routing_group=-1 per_device_batch_size=4 vocab_size=24 "
    "max_target_length=8 sparse_matmul=false ";
const std::string kClip = kLatent + "use_qk_clip=true ";

double highest_of(const std::string& request) {
  test::Training training(request);
  return training.trainer.run_step(training.batch()).metrics.max_logits.value();
}

// Without learning, only clips change weights.
std::vector<double> clipped(const std::string& path, double threshold, const std::string& more = "") {
  test::Training training(kClip + more + "learning_rate=0 qk_clip_threshold=" + std::to_string(threshold));
  training.trainer.run_step(training.batch());
  return training.parameter(path);
}

TEST(Clip, LeavesWeightsAloneBelowTheThreshold) {
  test::Training training(kClip + "learning_rate=0");
  for (const char* path : {"decoder/moe_layers/self_attention/wq_b/kernel", "decoder/moe_layers/self_attention/wkv_b/kernel"}) {
    EXPECT_EQ(clipped(path, 100), training.parameter(path)) << path;
  }
}

// In a single layer, whose input stays the same. The part of keys that heads share is not clipped: queries take its whole factor.
TEST(Clip, BringsTheHighestScoreToTheThreshold) {
  const std::string one = "base_num_decoder_layers=1 first_num_dense_layers=0 base_mlp_dim=8 ";
  for (const std::string& more : {one, one + "scan_layers=false ", one + "q_lora_rank=0 ", one + "opt_type=muon ", one + "gradient_accumulation_steps=2 "}) {
    const double before = highest_of(kClip + more);
    ASSERT_GT(before, 0.02) << more;
    const double threshold = before / 4;
    test::Training training(kClip + more + "learning_rate=0 qk_clip_threshold=" + std::to_string(threshold));
    EXPECT_NEAR(training.trainer.run_step(training.batch()).metrics.max_logits.value(), before, 1e-5 * before) << more;
    EXPECT_NEAR(training.trainer.run_step(training.batch()).metrics.max_logits.value(), threshold, 1e-4 * threshold) << more;
  }
}

// Each layer by its own scores, whether layers are stacked or not.
TEST(Clip, IsOfEachLayerAlone) {
  const double threshold = highest_of(kClip) / 3;
  for (const char* weight : {"wq_b", "wkv_b"}) {
    const std::string path = "/self_attention/" + std::string(weight) + "/kernel";
    test::Training stacked(kClip + "learning_rate=0 qk_clip_threshold=" + std::to_string(threshold));
    test::Training apart(kClip + "scan_layers=false learning_rate=0 qk_clip_threshold=" + std::to_string(threshold));
    for (const std::string& name : apart.paths()) {
      const std::size_t number = name.find("_layers_");
      if (number == std::string::npos) continue;
      const std::string group = name.substr(0, number + 7), rest = name.substr(number + 9);
      const run::Array all = stacked.trainer.parameter(group + rest);
      const std::int64_t layer = name[number + 8] - '0', layers = group == "decoder/dense_layers" ? 1 : 2;
      Shape shape = all.view.shape;
      ASSERT_EQ(shape[1], layers);
      shape.erase(shape.begin() + 1);
      const std::vector<double> numbers = test::numbers_of(all);
      const std::int64_t inner = elements(shape) / shape[0];
      std::vector<double> own;
      for (std::int64_t row = 0; row < shape[0]; ++row) {
        const auto from = numbers.begin() + (row * layers + layer) * inner;
        own.insert(own.end(), from, from + inner);
      }
      apart.trainer.set_parameter(name, apart.array(shape, own));
    }
    for (const char* shared : {"token_embedder/embedding", "decoder/decoder_norm/scale", "decoder/logits_dense/kernel"})
      apart.trainer.set_parameter(shared, stacked.trainer.parameter(shared));
    const double before = stacked.trainer.run_step(stacked.batch()).metrics.max_logits.value();
    EXPECT_NEAR(apart.trainer.run_step(apart.batch()).metrics.max_logits.value(), before, 1e-6);
    const std::vector<double> both = stacked.parameter("decoder/moe_layers" + path);
    const std::vector<double> first = apart.parameter("decoder/moe_layers_0" + path), second = apart.parameter("decoder/moe_layers_1" + path);
    const std::size_t rows = weight == std::string("wq_b") ? 10 : 9, inner = first.size() / rows;
    for (std::size_t row = 0; row < rows; ++row) {
      for (std::size_t i = 0; i < inner; ++i) {
        EXPECT_NEAR(both[(row * 2) * inner + i], first[row * inner + i], 1e-6);
        EXPECT_NEAR(both[(row * 2 + 1) * inner + i], second[row * inner + i], 1e-6);
      }
    }
  }
}

TEST(Clip, TakesTheHighestScoreOfAllMicrobatches) {
  const double once = highest_of(kClip);
  EXPECT_NEAR(highest_of(kClip + "gradient_accumulation_steps=4 per_device_batch_size=1"), once, 1e-5 * once);
}

// As in MaxText, which clips whatever the optimizer makes or leaves.
TEST(Clip, ShrinksWeightsThatAreNotTrainedToo) {
  test::Training training(kClip);
  for (const char* path : {"decoder/moe_layers/self_attention/wq_b/kernel", "decoder/moe_layers/self_attention/wkv_b/kernel"}) {
    EXPECT_EQ(clipped(path, 1e-3, "trainable_parameters_mask=[norm] "), clipped(path, 1e-3)) << path;
    EXPECT_NE(clipped(path, 1e-3), training.parameter(path)) << path;
  }
}

TEST(Clip, IsToldInMetrics) {
  const test::TemporaryFolder folder;
  const std::string path = folder.path() + "/m.jsonl";
  ASSERT_EQ(test::train_with(kClip + "steps=2 metrics_file=" + path).code, 0);
  for (const nlohmann::json& step : test::metrics_in(path)) EXPECT_GT(step.at("max_logits").get<double>(), 0);
  ASSERT_EQ(test::train_with(kLatent + "steps=1 metrics_file=" + path).code, 0);
  EXPECT_FALSE(test::metrics_in(path).back().contains("max_logits"));
}

TEST(Clip, RefusesWhatItCannotClip) {
  const auto refused = [](const std::string& request) { return test::train_with(request).err; };
  EXPECT_THAT(refused(test::kTinyMixtral + "use_qk_clip=true"),
              HasSubstr("use_qk_clip=true shrinks weights of latent attention, which this model does not have"));
  EXPECT_THAT(refused(kClip + "attn_logits_soft_cap=30"), HasSubstr("use_qk_clip=true with attn_logits_soft_cap=30: a cap hides how large"));
  EXPECT_THAT(test::outcome_of(test::words_of("compile " + kClip + "compile_topology=cpu-2 ici_pipeline_parallelism=2 ici_fsdp_parallelism=1")).err,
              HasSubstr("use_qk_clip=true does not work over pipeline stages"));
}

}  // namespace
}  // namespace moesh
