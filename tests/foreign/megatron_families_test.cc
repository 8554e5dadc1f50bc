// Which family a command of Megatron-LM is, where its flags leave little between two.
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/foreign/megatron_commands.h"
#include "tests/support.h"

namespace moesh::foreign {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

const std::string kOfAllKinds =
    "--num-layers 4 --hidden-size 64 --num-attention-heads 4 --seq-length 32 --micro-batch-size 2 --bf16 --vocab-size 256 ";

TEST(MegatronFamilies, ASingleExpertIsADenseModel) {
  EXPECT_EQ(given(kDense + "--num-experts 1", "decoder_block"), "decoder_block=llama2");
  EXPECT_EQ(given(kDense + "--num-experts 1", "num_experts"), "num_experts is not given");
}

TEST(MegatronFamilies, ModelsWithGroupsOfHeadsAreNoGpt3) {
  EXPECT_EQ(given(kOfAllKinds, "decoder_block"), "decoder_block=gpt3");
  EXPECT_EQ(given(kOfAllKinds + "--group-query-attention --num-query-groups 2", "decoder_block"), "decoder_block=llama2");
}

TEST(MegatronFamilies, SharedExpertsWithAGateAreQwensUnlessSomeLayersAreDense) {
  const std::string shared = kSparse + "--moe-shared-expert-intermediate-size 64 --moe-shared-expert-gate ";
  EXPECT_EQ(given(shared, "decoder_block"), "decoder_block=qwen2_moe");
  EXPECT_EQ(given(shared + "--moe-layer-freq [0]*1+[1]*3", "decoder_block"), "decoder_block=deepseek");
}

TEST(MegatronFamilies, GatedDeltaNetIsQwen3Nexts) {
  const std::string next = kSparse + "--moe-shared-expert-intermediate-size 64 --moe-shared-expert-gate --attention-output-gate "
                                     "--qk-layernorm --experimental-attention-variant gated_delta_net --linear-num-value-heads 8 ";
  EXPECT_EQ(given(next, "decoder_block"), "decoder_block=qwen3_next");
  EXPECT_EQ(given(next, "gdn_num_value_heads"), "gdn_num_value_heads=8");
  EXPECT_EQ(given(next, "gdn_num_key_heads"), "gdn_num_key_heads=16");
  EXPECT_EQ(given(next + "--linear-attention-freq 2", "inhomogeneous_layer_cycle_interval"), "inhomogeneous_layer_cycle_interval=2");
  EXPECT_EQ(given(next + "--linear-attention-freq ([1]*3+[0]*1)*1", "inhomogeneous_layer_cycle_interval"),
            "inhomogeneous_layer_cycle_interval=4");
  EXPECT_THAT(notes(next), Not(HasSubstr("gate here")));
  EXPECT_THAT(notes(next + "--linear-attention-freq [1,0,0,0]"), HasSubstr("--linear-attention-freq: attention is planned in the last layer"));
  EXPECT_THAT(notes(kSparse + "--attention-output-gate"), HasSubstr("attention's result has no gate here"));
  EXPECT_THAT(notes(kSparse + "--experimental-attention-variant gated_delta_net"), HasSubstr("gated_delta_net: full attention is planned"));
}

TEST(MegatronFamilies, DenseLayersAmongOthersHaveTheirWidth) {
  EXPECT_EQ(given(kSparse + "--ffn-hidden-size 96 --moe-layer-freq [0,1]*2", "base_mlp_dim"), "base_mlp_dim=96") << "the first is dense";
  EXPECT_EQ(given(kSparse + "--ffn-hidden-size 96 --moe-layer-freq [1,0]*2", "base_mlp_dim"), "base_mlp_dim=96");
}

TEST(MegatronFamilies, PositionsAreStretchedOnlyIfTheyTurn) {
  const std::string stretched = "--rope-type yarn --rotary-scaling-factor 4 ";
  EXPECT_EQ(given(kDense + stretched, "rope_type"), "rope_type=yarn");
  EXPECT_EQ(given(kOfAllKinds + "--position-embedding-type none " + stretched, "rope_type"), "rope_type is not given");
}

TEST(MegatronFamilies, AttentionHasABiasBehindItIfAllProductsHave) {
  const std::string biased = kOfAllKinds + "--swiglu --normalization RMSNorm --position-embedding-type rope --add-qkv-bias ";
  EXPECT_EQ(given(biased, "attention_bias"), "attention_bias=true");
  EXPECT_EQ(given(biased, "attention_out_bias"), "attention_out_bias is not given");
  EXPECT_EQ(given(biased, "bias_and_norm_anywhere"), "bias_and_norm_anywhere=true") << "no family of MaxText's has these";
  EXPECT_EQ(given(kOfAllKinds + "--disable-bias-linear", "bias_and_norm_anywhere"), "bias_and_norm_anywhere is not given");
  EXPECT_EQ(given(biased + "--disable-bias-linear", "attention_out_bias"), "attention_out_bias=false");
}

// Megatron-LM adds up as many of a group's best scores as it chooses experts of each.
TEST(MegatronFamilies, GroupsAreRankedByAsManyScoresAsTheyGive) {
  const std::string grouped = kSparse + "--moe-router-num-groups 4 --moe-router-group-topk 2 --moe-router-topk ";
  EXPECT_EQ(given(grouped + "2", "routing_group_score"), "routing_group_score=best");
  EXPECT_EQ(given(grouped + "4", "routing_group_score"), "routing_group_score=best_two");
}

TEST(MegatronFamilies, WithoutABatchStagesHaveAMicrobatchEach) {
  const std::string staged = kDense + "--pipeline-model-parallel-size 2 --world-size 2 ";
  EXPECT_THAT(notes(staged), HasSubstr("no --global-batch-size: as many microbatches as stages"));
  EXPECT_THAT(notes(staged), Not(HasSubstr("microbatches are planned")));
}

TEST(MegatronFamilies, ChunksHaveALayerAtLeast) {
  const std::string staged =
      kSparse + "--num-layers 16 --moe-layer-freq [0]*10+[1]*6 --pipeline-model-parallel-size 2 --global-batch-size 8 ";
  EXPECT_EQ(given(staged, "num_layers_per_pipeline_stage"), "num_layers_per_pipeline_stage=3");
  EXPECT_EQ(given(staged + "--num-virtual-stages-per-pipeline-rank 4", "num_layers_per_pipeline_stage"), "num_layers_per_pipeline_stage=1");
}

TEST(MegatronFamilies, ChunksNeedNotDivideLayersThatAreSharedUnevenly) {
  const std::string staged =
      kDense + "--num-layers 10 --pipeline-model-parallel-size 2 --num-virtual-stages-per-pipeline-rank 2 --global-batch-size 8 ";
  const auto refusal = [](const std::string& command) { return test::message_of([&] { imported(command); }); };
  EXPECT_THAT(refusal(staged), HasSubstr("a divisor of the 5 layers of a stage was expected"));
  EXPECT_EQ(refusal(staged + "--decoder-first-pipeline-num-layers 4"), "no error");
}

TEST(MegatronFamilies, TheRateFallsInWhatTheWarmupLeaves) {
  const std::string schedule = kDense + "--lr 1e-3 --train-iters 100 --lr-warmup-iters 50 --lr-decay-style WSD --lr-wsd-decay-iters ";
  EXPECT_EQ(given(schedule + "30", "wsd_decay_steps_fraction"), "wsd_decay_steps_fraction=0.3");
  EXPECT_EQ(given(schedule + "80", "wsd_decay_steps_fraction"), "wsd_decay_steps_fraction=0.5");
}

TEST(MegatronFamilies, TheFewestDevicesHoldTheExpertsOverTheContextToo) {
  EXPECT_THAT(notes(kSparse + "--expert-model-parallel-size 4 --context-parallel-size 2"),
              HasSubstr("how many devices there are: 4, the fewest"));
  EXPECT_THAT(notes(kSparse + "--expert-model-parallel-size 2 --context-parallel-size 4"),
              HasSubstr("how many devices there are: 8, the fewest"));
}

TEST(MegatronFamilies, AsManyDevicesAreOfferedAsTheDegreesTake) {
  EXPECT_THAT(
      test::message_of([] { imported(kDense + "--tensor-model-parallel-size 4 --world-size 2"); }),
      HasSubstr("2 devices for tensor 4 x context 1 x pipeline 1: a multiple of 4 was expected\n  fix: 4 devices, or other degrees"));
}

}  // namespace
}  // namespace moesh::foreign
