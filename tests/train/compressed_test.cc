// Training models with compressed attention.
#include <gmock/gmock.h>

#include "tests/config/small_models.h"
#include "tests/support.h"
#include "tests/train/trainer_support.h"

namespace moesh {
namespace {

using test::kDeepseek4;
using ::testing::HasSubstr;

const std::string kFloat = kDeepseek4 + "dtype=float32 max_target_length=16 ";

TEST(Compressed, IsRefusedWhereItDoesNotFit) {
  EXPECT_EQ(test::refusal_of(kFloat), "no error");
  const std::pair<std::string, std::string> wrong[] = {
      {"attention_type=mla",
       "attention_type is mla, decoder_block=deepseek4 has compressed attention\n  fix: attention_type=compressed"},
      {"q_lora_rank=0", "q_lora_rank is 0, decoder_block=deepseek4 takes at least 1"},
      {"mhc_expansion_rate=1", "mhc_expansion_rate is 1, decoder_block=deepseek4 takes at least 2"},
      {"base_num_kv_heads=2", "base_num_kv_heads is 2: in compressed attention all heads share one key"},
      {"qk_rope_head_dim=10",
       "qk_rope_head_dim is 10, an even number of the dims of a head was expected (head_dim=16, indexer_head_dim=8)"},
      {"o_groups=7", "o_groups=7 does not divide the 32 dims of all heads"},
      {"compress_ratios=[0,4,3,4]", "compress_ratios holds 3, 0 or at least 4 tokens for a key were expected"},
      {"compress_ratios=[0,4]", "compress_ratios has 2 numbers, for 4 layers"},
      {"first_num_hash_layers=5", "first_num_hash_layers is 5, of 4 layers in all"},
      {"scan_layers=true", "3 layers behind the first 1 do not make whole pairs, which scan_layers=true stacks"},
      {"scan_layers=true first_num_hash_layers=2",
       "compress_ratios has 8 for layer 2: stacked layers take 128 tokens and 4 in turns\n  fix: 128 there, or scan_layers=false"},
      {"mtp_num_layers=1", "multi-token prediction is not there for several streams"}};
  for (const auto& [change, message] : wrong) EXPECT_THAT(test::refusal_of(kFloat + change), HasSubstr(message)) << change;
  EXPECT_THAT(test::refusal_of(test::kLlama + "attention_type=compressed"),
              HasSubstr("attention_type=compressed is not supported by moesh for decoder_block=llama2"));
}

TEST(Compressed, TrainsTheSameOnAnyMesh) {
  const std::string stacked = "scan_layers=true first_num_hash_layers=2 compress_ratios=[0,4,128,4] max_target_length=128 ";
  for (const std::string& model : {std::string(), stacked}) {
    const std::string request = kFloat + model;
    const double one = test::second_loss_of(request + "compile_topology=cpu-1 per_device_batch_size=4");
    for (const std::string mesh :
         {"ici_fsdp_parallelism=4 ", "ici_fsdp_parallelism=2 ici_expert_parallelism=2 ",
          "ici_fsdp_parallelism=2 ici_expert_parallelism=2 use_ring_of_experts=true ",
          "ici_fsdp_parallelism=2 ici_tensor_parallelism=2 logical_axis_rules=[[kv_heads,[]]] ",
          "ici_fsdp_parallelism=2 ici_context_parallelism=2 ", "ici_expert_parallelism=4 custom_mesh_and_rule=ep-as-cp ",
          "ici_fsdp_parallelism=4 sparse_matmul=false "}) {
      const std::string fsdp = mesh.find("fsdp_parallelism") == std::string::npos ? "ici_fsdp_parallelism=1 " : "";
      EXPECT_NEAR(test::second_loss_of(request + "compile_topology=cpu-4 per_device_batch_size=1 " + fsdp + mesh), one, 5e-6)
          << model << mesh;
    }
  }
}

// Whatever the optimizer, the table of experts stays, and a router's bias moves by its own rate alone.
TEST(Compressed, LeavesTheTableOfExpertsAlone) {
  for (const std::string optimizer : {"opt_type=adamw ", "opt_type=muon ", "opt_type=sgd "}) {
    test::Training training(kFloat + optimizer + "routed_bias_update_rate=0.5 adam_weight_decay=1 compile_topology=cpu-1 "
                            "per_device_batch_size=2");
    const std::string gate = "/mlp/MoeBlock_0/gate/bias", table = "decoder/layers_0/mlp/MoeBlock_0/tid2eid";
    const std::vector<double> experts = training.parameter(table);
    for (std::size_t i = 0; i < experts.size(); ++i) EXPECT_EQ(experts[i], static_cast<double>(i % 4)) << "experts in turns";
    for (int step = 0; step < 2; ++step) training.trainer.step(training.batch());
    EXPECT_EQ(training.parameter(table), experts) << optimizer;
    for (const int layer : {1, 2, 3}) {
      for (const double bias : training.parameter("decoder/layers_" + std::to_string(layer) + gate))
        EXPECT_EQ(std::fmod(bias, 0.5), 0) << optimizer;
    }
  }
}

}  // namespace
}  // namespace moesh
