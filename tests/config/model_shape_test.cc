// The model's sizes, the batch's rows and the pipeline's shape, derived from the settings.
#include <cmath>
#include <limits>
#include <string>

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "config/batch_sizes.h"
#include "config/load.h"
#include "config/model_shape.h"
#include "config/pipeline.h"
#include "tests/support.h"

namespace moesh::config {
namespace {

using test::message_of;
using ::testing::HasSubstr;
using ::testing::StartsWith;

Settings settings_for(const std::string& request) { return load(test::words_of(request)).settings; }
ModelShape shape_of(const std::string& request) { return model_shape(settings_for(request)); }
std::string shape_refusal(const std::string& request) {
  return message_of([&] { shape_of(request); });
}

TEST(ModelShape, IsReadOffAPreset) {
  const ModelShape mixtral = shape_of("model_name=mixtral-8x7b");
  EXPECT_EQ(mixtral.block, Block::mixtral);
  EXPECT_EQ(mixtral.emb_dim, 4096);
  EXPECT_EQ(mixtral.layers, 32);
  EXPECT_EQ(mixtral.attention.kv_heads, 8);
  EXPECT_EQ(mixtral.moe.experts, 8);
  EXPECT_EQ(mixtral.moe.mlp_dim, 14336);
  EXPECT_TRUE(mixtral.is_moe());
  const ModelShape deepseek = shape_of("model_name=deepseek3-671b");
  EXPECT_TRUE(deepseek.attention.latent);
  EXPECT_EQ(deepseek.attention.qk_head_dim(), 192);
  EXPECT_EQ(deepseek.attention.value_head_dim(), 128);
  EXPECT_EQ(deepseek.dense_layers, 3);
  EXPECT_EQ(deepseek.moe.shared_experts, 1);
  EXPECT_FALSE(shape_of("model_name=llama3-8b").is_moe());
}

struct ScaleCase {
  int scale;
  std::int64_t emb, heads, mlp, layers;
};

TEST(ModelShape, DoublesHeadsAndWidthFirstThenTheEmbeddingThenLayers) {
  for (const ScaleCase& c : {ScaleCase{1, 1, 1, 1, 1}, ScaleCase{2, 1, 2, 2, 1}, ScaleCase{4, 2, 2, 2, 1},
                             ScaleCase{8, 2, 2, 2, 2}, ScaleCase{16, 2, 4, 4, 2}, ScaleCase{64, 4, 4, 4, 4}}) {
    SCOPED_TRACE(c.scale);
    const ModelShape shape = shape_of("global_parameter_scale=" + std::to_string(c.scale));
    EXPECT_EQ(shape.emb_dim, 2048 * c.emb);
    EXPECT_EQ(shape.attention.query_heads, 16 * c.heads);
    EXPECT_EQ(shape.attention.kv_heads, 16 * c.heads);
    EXPECT_EQ(shape.mlp_dim, 7168 * c.mlp);
    EXPECT_EQ(shape.layers, 16 * c.layers);
  }
  EXPECT_EQ(shape_refusal("global_parameter_scale=12"),
            "the command line: global_parameter_scale is 12, a power of two was expected\n"
            "  fix: set base_emb_dim and its like for other sizes");
}

TEST(ModelShape, ChoosesTheStrategyOfTheExperts) {
  const std::string mixtral = "model_name=mixtral-8x7b ";
  EXPECT_EQ(shape_of(mixtral).moe.strategy, MoeStrategy::sparse);
  EXPECT_FALSE(shape_of(mixtral).moe.ring);
  EXPECT_TRUE(shape_of(mixtral + "use_ring_of_experts=true").moe.ring);
  EXPECT_EQ(shape_of(mixtral + "sparse_matmul=false").moe.strategy, MoeStrategy::dense);
  EXPECT_EQ(shape_of(mixtral + "sparse_matmul=false capacity_factor=1.25").moe.strategy, MoeStrategy::capacity);
  EXPECT_EQ(shape_of(mixtral + "capacity_factor=1.25").moe.strategy, MoeStrategy::sparse);
}

TEST(ModelShape, RefusesHeadsThatDoNotDivide) {
  EXPECT_EQ(shape_refusal("base_num_kv_heads=5"),
            "the command line: 16 query heads over 5 key/value heads, a whole number for each was expected\n"
            "  fix: choose base_num_kv_heads so that it divides");
}

TEST(ModelShape, RefusesLayersThatDoNotAddUp) {
  EXPECT_EQ(shape_refusal("decoder_block=deepseek num_experts=4 num_experts_per_tok=2 first_num_dense_layers=17"),
            "the command line: first_num_dense_layers is 17, of 16 layers in all\n"
            "  fix: lower it, or raise base_num_decoder_layers");
  EXPECT_EQ(shape_refusal("model_name=gpt-oss-20b override_model_config=true base_num_decoder_layers=5"),
            "the command line: cycles of 2 (inhomogeneous_layer_cycle_interval) do not divide 5 layers");
}

// One letter per layer: 'a' for full attention, 'w' for a sliding window, 'c' for chunks, upper case without
// rotary positions; '+' follows a layer with experts.
std::string layers_of(const std::string& request) {
  const ModelShape shape = shape_of(request);
  std::string word;
  for (const LayerShape& layer : shape.of_cycle) {
    const char letter = layer.chunk > 0 ? 'c' : layer.window > 0 ? 'w' : 'a';
    word += static_cast<char>(layer.has_rope ? letter : letter - 'a' + 'A');
    if (layer.has_experts) word += '+';
  }
  return word;
}

TEST(ModelShape, KnowsTheLayersOfEachFamily) {
  EXPECT_EQ(layers_of("model_name=llama4-17b-16e"), "c+c+c+A+");
  EXPECT_EQ(layers_of("model_name=llama4-17b-128e"), "cc+cA+");
  EXPECT_EQ(layers_of("model_name=olmo3-7b"), "wwwa");
  EXPECT_EQ(layers_of("model_name=gemma2-2b"), "wa");
  EXPECT_EQ(layers_of("model_name=gemma3-4b"), "wwwwwa");
  EXPECT_EQ(layers_of("model_name=gemma4-31b"), "wwwwwa");
  EXPECT_EQ(layers_of("model_name=gemma4-26b"), "w+w+w+w+w+a+");
  EXPECT_EQ(layers_of("model_name=gemma-2b"), "a");
  EXPECT_EQ(layers_of("model_name=gpt-oss-20b"), "w+a+");
  EXPECT_EQ(layers_of("model_name=envy-test"), "aa+");
  EXPECT_EQ(layers_of("model_name=llama4-17b-128e layer_positions=[none,rotary,rotary,rotary]"), "Ac+cc+");
}

// As in the reference, layers that are not stacked follow the model's own pattern, whatever the length of the cycle.
TEST(ModelShape, LayersOneByOneGoOnWhateverTheCycle) {
  const std::string olmo = "model_name=olmo3-7b override_model_config=true base_num_decoder_layers=6 ";
  EXPECT_EQ(layers_of(olmo + "inhomogeneous_layer_cycle_interval=2"), "ww");
  EXPECT_EQ(layers_of(olmo + "inhomogeneous_layer_cycle_interval=2 scan_layers=false"), "wwwaww");
  EXPECT_EQ(layers_of("model_name=gemma3-4b override_model_config=true base_num_decoder_layers=8 scan_layers=false"), "wwwwwaww");
}

TEST(ModelShape, ScoresOfTheLargestGemma3HaveAScaleOfTheirOwn) {
  EXPECT_DOUBLE_EQ(shape_of("model_name=gemma3-27b").attention.score_scale, 1 / std::sqrt(168.0));
  EXPECT_EQ(shape_of("model_name=gemma3-12b").attention.score_scale, -1);
}

TEST(ModelShape, LayersOfGemma4ThatSeeAllHaveHeadsOfTheirOwn) {
  const ModelShape shape = shape_of("model_name=gemma4-26b");
  const AttentionShape local = shape.attention_of(shape.layer(0)), global = shape.attention_of(shape.layer(5));
  EXPECT_EQ(local.head_dim, 256);
  EXPECT_EQ(local.kv_heads, 8);
  EXPECT_EQ(local.rotary_dim, 256);
  EXPECT_FALSE(local.shares_values);
  EXPECT_EQ(global.head_dim, 512);
  EXPECT_EQ(global.kv_heads, 2);
  EXPECT_EQ(global.rotary_dim, 128);
  EXPECT_TRUE(global.shares_values);
  EXPECT_EQ(shape.moe.shared_dim, 2112);
  const std::string own = "model_name=gemma4-26b override_model_config=true ";
  const ModelShape plain = shape_of(own + "global_head_dim=0 global_num_kv_heads=0 rope_type=yarn");
  EXPECT_EQ(plain.global_heads.head_dim, 256);
  EXPECT_EQ(plain.global_heads.kv_heads, 8);
  EXPECT_EQ(plain.global_heads.rotary_dim, 256) << "yarn turns whole heads";
  EXPECT_EQ(shape_of(own + "global_head_dim=20 global_rope_proportion=0.25").global_heads.rotary_dim, 4)
      << "5 dims are two pairs and a half";
  EXPECT_EQ(shape_of(own + "attention_score_scale=0.5").attention.score_scale, 0.5);
}

// As in the reference, for a model that norms its queries only if asked to.
TEST(ModelShape, QueryKernelsOfGemma4AreSmallerUnlessNormsAreAskedFor) {
  EXPECT_TRUE(shape_of("model_name=gemma4-26b").attention.scales_query_init);
  EXPECT_FALSE(shape_of("model_name=gemma4-26b override_model_config=true use_qk_norm=true").attention.scales_query_init);
  EXPECT_EQ(shape_of("model_name=gemma4-26b").attention.score_scale, 1);
}

TEST(ModelShape, OfGemma4WhatDoesNotGoTogetherIsRefused) {
  const auto refused = [](const std::string& words) {
    return test::message_of([&] { shape_of("model_name=gemma4-26b override_model_config=true " + words); });
  };
  EXPECT_THAT(refused("fused_qkv=true"), ::testing::HasSubstr("share_kv_projections=true leaves no values to be made by fused_qkv"));
  EXPECT_THAT(refused("shared_experts=0"), ::testing::HasSubstr("shared_experts is 0, decoder_block=gemma4 has an MLP beside its experts"));
  EXPECT_THAT(refused("global_num_kv_heads=3"),
              ::testing::HasSubstr("16 query heads over 3 key/value heads of global layers, a whole number for each was expected"));
}

TEST(ModelShape, AFileIsKnownByItsName) {
  const test::TemporaryFolder folder;
  for (const char* ending : {".yml", ".yaml"}) {
    const std::string file = folder.write(std::string("deepseek3-mine") + ending,
                                          "decoder_block: deepseek\nnum_experts: 8\nnum_experts_per_tok: 2\nn_routing_groups: 4\n");
    EXPECT_TRUE(routes_by_groups(settings_for("model_name=" + file)));
    EXPECT_EQ(known_name(settings_for("model_name=" + file)), "deepseek3-mine");
  }
}

TEST(ModelShape, ExpertsOfTheCustomQwenTakeWhatAttentionGives) {
  const std::string custom = "model_name=qwen3-custom-30b-a3b override_model_config=true ";
  const ModelShape shape = shape_of(custom + "attention_output_dim=512 moe_expert_input_dim=512");
  EXPECT_EQ(shape.attention.out_dim, 512);
  EXPECT_EQ(shape.moe.input_dim, 512);
  EXPECT_EQ(shape_refusal(custom + "moe_expert_input_dim=512"),
            "the command line: attention_output_dim is 768, moe_expert_input_dim 512: experts take what attention gives\n"
            "  fix: give both the same");
}

TEST(ModelShape, RefusesPartsThatADecoderBlockLacks) {
  EXPECT_EQ(shape_refusal("decoder_block=gpt3 base_num_kv_heads=4"),
            "the command line: 16 query heads over 4 of keys and values: decoder_block=gpt3 has as many\n  fix: base_num_kv_heads=16");
  EXPECT_THAT(shape_refusal("model_name=deepseek3-tiny attention_sink=true override_model_config=true"),
              HasSubstr("attention_sink is no part of attention_type=mla"));
}

TEST(ModelShape, RefusesExpertsThatDoNotFitTheBlock) {
  EXPECT_EQ(shape_refusal("decoder_block=mixtral"),
            "the defaults: num_experts is 1, decoder_block=mixtral has at least 2\n  fix: set num_experts and "
            "num_experts_per_tok");
  EXPECT_EQ(shape_refusal("num_experts=4"),
            "the command line: num_experts is 4, but decoder_block=llama2 has no experts\n"
            "  fix: use decoder_block=mixtral, deepseek, deepseek4, qwen2_moe, qwen3_moe, gpt_oss, llama4, gemma4, envy, qwen3_next or "
            "qwen3_5");
  EXPECT_EQ(shape_refusal("decoder_block=mixtral num_experts=4 num_experts_per_tok=5"),
            "the command line: num_experts_per_tok is 5, of 4 experts");
  EXPECT_EQ(shape_refusal("model_name=gpt-oss-20b sparse_matmul=false capacity_factor=1.25"),
            "the command line: gpt_oss drops no tokens, as in MaxText: it has no capacity path\n  fix: capacity_factor=-1");
}

// As in MaxText. Two widths are refused of Mixtral, but not if first_num_dense_layers is given, though it has no such layers.
TEST(ModelShape, ExpertsOfMixtralHaveTheWidthOfAnMlp) {
  const std::string mixtral = "decoder_block=mixtral num_experts=4 num_experts_per_tok=2 base_mlp_dim=512 ";
  EXPECT_EQ(shape_of(mixtral + "base_moe_mlp_dim=512").moe.mlp_dim, 512);
  EXPECT_EQ(shape_of(mixtral + "base_moe_mlp_dim=256 first_num_dense_layers=1").moe.mlp_dim, 512);
  EXPECT_EQ(shape_of("decoder_block=qwen3_moe num_experts=4 base_mlp_dim=512 base_moe_mlp_dim=256 first_num_dense_layers=1").moe.mlp_dim,
            256);
}

// MaxText would clamp the half that is not gated to the number -1 in all experts.
TEST(ModelShape, RefusesExpertsOfGptOssThatAreClampedToNothing) {
  const std::string by_hand = "decoder_block=gpt_oss num_experts=4 num_experts_per_tok=2 ";
  EXPECT_EQ(shape_refusal(by_hand),
            "the defaults: mlp_activations_limit is -1, and gpt_oss clamps what enters its experts' activations to it in any case, as in "
            "MaxText\n  fix: mlp_activations_limit=7.0, as its presets have");
  EXPECT_THAT(shape_refusal("model_name=gpt-oss-20b override_model_config=true mlp_activations_limit=0"),
              HasSubstr("mlp_activations_limit is 0, and gpt_oss clamps"));
  EXPECT_EQ(shape_of(by_hand + "mlp_activations_limit=3").moe.limit, 3);
}

BatchSizes batch_of(const std::string& request, std::int64_t devices) {
  return batch_sizes(settings_for(request), devices);
}

TEST(BatchSizes, CountsRowsOverDevicesAndAccumulatedSteps) {
  const BatchSizes sizes = batch_of("per_device_batch_size=3 gradient_accumulation_steps=4", 8);
  EXPECT_EQ(sizes.micro_rows, 24);
  EXPECT_EQ(sizes.rows_to_train, 96);
  EXPECT_EQ(sizes.rows_to_load, 96);
}

TEST(BatchSizes, LoadsAWholeRowForEachDeviceThatTrainsAFraction) {
  const BatchSizes sizes = batch_of("per_device_batch_size=0.25", 8);
  EXPECT_EQ(sizes.micro_rows, 2);
  EXPECT_EQ(sizes.rows_to_train, 2);
  EXPECT_EQ(sizes.rows_to_load, 8);
}

TEST(BatchSizes, LoadsMoreWhereFewerHostsReadTheData) {
  EXPECT_EQ(batch_of("per_device_batch_size=2 expansion_factor_real_data=2", 8).rows_to_load, 32);
  EXPECT_EQ(batch_of("per_device_batch_size=2 expansion_factor_real_data=-1", 8).rows_to_load, 16);
}

TEST(BatchSizes, RefusesLessThanARow) {
  EXPECT_EQ(message_of([] { batch_of("per_device_batch_size=0.1", 8); }),
            "the command line: per_device_batch_size 0.1 on 8 devices makes less than one row\n  fix: at least 0.125 "
            "is needed");
}

TEST(BatchSizes, StayWithin64Bits) {
  EXPECT_EQ(
      message_of([] {
        batch_of("per_device_batch_size=1000000 gradient_accumulation_steps=1000000 expansion_factor_real_data=1000000",
                 1 << 20);
      }),
      "the command line: per_device_batch_size 1000000 on 1,048,576 devices makes more than 2^53 rows a step\n  fix: "
      "lower it");
}

TEST(BatchSizes, LoadAtLeastWhatIsTrained) {
  EXPECT_EQ(message_of([] { batch_of("per_device_batch_size=1 expansion_factor_real_data=0.01", 8); }),
            "the command line: expansion_factor_real_data=0.01 loads 0 rows a step, 8 are trained on\n"
            "  fix: at least 1, or -1 for as many as are needed");
}

TEST(ModelShape, SharedExpertsGrowWithTheParameterScale) {
  const std::string request =
      "model_name=qwen3-30b-a3b override_model_config=true decoder_block=qwen2_moe shared_experts=2 shared_expert_mlp_dim=96 ";
  EXPECT_EQ(shape_of(request).moe.shared_dim, 2 * 96);
  EXPECT_EQ(shape_of(request + "global_parameter_scale=2").moe.shared_dim, 2 * 96 * 2);
}

// A module of multi-token prediction is a cycle of layers.
TEST(ModelShape, CountsTheLayersOfModulesThatHaveExperts) {
  const std::string request = "model_name=gpt-oss-20b override_model_config=true base_num_decoder_layers=4 ";
  EXPECT_EQ(shape_of(request).moe_layers(), 4);
  EXPECT_EQ(shape_of(request + "mtp_num_layers=1").moe_layers(), 4 + 2);
}

TEST(ModelShape, PositionsAreStretchedBeyondThoseOfTheTrainingOnly) {
  const std::string request = "original_max_position_embeddings=4096 max_position_embeddings=";
  EXPECT_FALSE(stretches_positions(settings_for(request + "4096")));
  EXPECT_TRUE(stretches_positions(settings_for(request + "4097")));
}

TEST(ModelShape, FirstMomentsHaveTheirTypeUnlessAdamPaxHasIt) {
  EXPECT_EQ(first_moment_dtype(settings_for("")), DType::float32);
  EXPECT_EQ(first_moment_dtype(settings_for("mu_dtype=bfloat16")), DType::bfloat16);
  EXPECT_EQ(first_moment_dtype(settings_for("mu_dtype=bfloat16 opt_type=adam_pax")), DType::float32) << "as in the reference";
}

TEST(BatchSizes, LoadAsManyRowsAsAllPassesTrainOn) {
  EXPECT_THAT(message_of([] {
                batch_sizes(settings_for("per_device_batch_size=4 gradient_accumulation_steps=2 expansion_factor_real_data=0.5"), 2);
              }),
              HasSubstr("expansion_factor_real_data=0.5 loads 8 rows a step, 16 are trained on"));
}

PipelineShape pipeline_of(const std::string& request, std::int64_t layers = 16, std::int64_t rows = 64) {
  return pipeline_shape(settings_for(request), layers, rows);
}

TEST(Pipeline, IsThereWhenAnAxisOfStagesIsLargerThanOne) {
  EXPECT_FALSE(has_pipeline(settings_for("")));
  EXPECT_TRUE(has_pipeline(settings_for("ici_pipeline_parallelism=2")));
  EXPECT_TRUE(has_pipeline(settings_for("dcn_pipeline_parallelism=2")));
}

TEST(Pipeline, RepeatsUntilAllLayersAreUsed) {
  const PipelineShape shape =
      pipeline_of("ici_pipeline_parallelism=2 dcn_pipeline_parallelism=2 num_layers_per_pipeline_stage=2");
  EXPECT_EQ(shape.stages, 4);
  EXPECT_EQ(shape.layers_per_stage, 2);
  EXPECT_EQ(shape.repeats, 2);
  EXPECT_EQ(shape.layers(), 16);
  EXPECT_EQ(shape.microbatches, 4);
}

TEST(Pipeline, MayLeaveLayersOutside) {
  EXPECT_EQ(pipeline_of("ici_pipeline_parallelism=4 pipeline_parallel_layers=12").layers(), 12);
}

TEST(Pipeline, DelaysForwardingWithTwiceTheMicrobatches) {
  EXPECT_EQ(pipeline_of("ici_pipeline_parallelism=4 pipeline_delay_activation_forwarding=true").microbatches, 8);
  EXPECT_THAT(
      message_of([] { pipeline_of("ici_pipeline_parallelism=4 pipeline_delay_activation_forwarding=true num_pipeline_microbatches=4"); }),
      HasSubstr("num_pipeline_microbatches=4 for 4 stages and 64 rows: a multiple of the stages, at least 8"));
}

TEST(Pipeline, RefusesLayersThatDoNotDivide) {
  EXPECT_THAT(message_of([] { pipeline_of("ici_pipeline_parallelism=4 num_layers_per_pipeline_stage=3"); }),
              StartsWith("the command line: 16 layers to pipeline, but stages x layers per stage x repeats = 12\n"
                         "  fix: choose num_layers_per_pipeline_stage or pipeline_parallel_layers so that it divides"));
  EXPECT_THAT(message_of([] { pipeline_of("ici_pipeline_parallelism=4 num_layers_per_pipeline_stage=8"); }),
              HasSubstr("stages x layers per stage x repeats = 32"));
  EXPECT_THAT(message_of([] { pipeline_of("ici_pipeline_parallelism=4 num_pipeline_repeats=3"); }),
              HasSubstr("stages x layers per stage x repeats = 12"));
  EXPECT_EQ(message_of([] { pipeline_of("ici_pipeline_parallelism=4 pipeline_parallel_layers=17"); }),
            "the command line: pipeline_parallel_layers=17 of 16 layers");
}

TEST(Pipeline, RefusesMicrobatchesThatDoNotFit) {
  const std::string expected =
      "the command line: num_pipeline_microbatches=6 for 4 stages and 64 rows: a multiple of the stages, at least 4, "
      "that divides "
      "the rows was expected";
  EXPECT_EQ(message_of([] { pipeline_of("ici_pipeline_parallelism=4 num_pipeline_microbatches=6"); }), expected);
  EXPECT_THAT(message_of([] { pipeline_of("ici_pipeline_parallelism=4 num_pipeline_microbatches=12"); }),
              HasSubstr("that divides the rows"));
}

// MaxText asks for rope_type first, then for the model's name; Hugging Face's models say it themselves.
TEST(ModelShape, WindowsAreRotatedInTheirOwnWayWhereFrequenciesArePlain) {
  const auto of = [](const std::string& request) {
    const auto own = rotation_of_windows(load(test::words_of(request)).settings);
    return own ? fmt::format("{} {} {}", own->min_timescale, own->max_timescale, own->linear_scaling) : "as others";
  };
  const std::string others = "decoder_block=gemma3 rope_max_timescale=900 rope_min_timescale=3 rope_linear_scaling_factor=8 ";
  const std::string gemma3 = "model_name=gemma3-4b override_model_config=true rope_max_timescale=900 rope_min_timescale=3 ";
  for (const std::string type : {"yarn", "llama3.1"}) {
    for (const std::string own : {"-1", "70"}) {
      const std::string words = "rope_type=" + type + " local_rope_max_timescale=" + own + " ";
      EXPECT_EQ(of(others + words), "as others");
      EXPECT_EQ(of(gemma3 + words), "as others");
      EXPECT_EQ(of(others + words + "local_rope_type=default"), own == "70" ? "1 70 1" : "1 900 1");
    }
  }
  EXPECT_EQ(of(others), "as others");
  EXPECT_EQ(of(others + "local_rope_max_timescale=70"), "3 70 8");
  EXPECT_EQ(of(gemma3 + "local_rope_max_timescale=70"), "3 70 1") << "only models named gemma3 are not stretched";
  EXPECT_EQ(of(gemma3 + "local_rope_max_timescale=-1"), "3 900 1");
  EXPECT_EQ(of(others + "local_rope_max_timescale=70 local_rope_type=default"), "1 70 1");
}

}  // namespace
}  // namespace moesh::config
