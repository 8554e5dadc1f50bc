// Gradients of several microbatches: reduced in each pass, or added up on each device and reduced once.
#include <gtest/gtest.h>

#include "advice/planned.h"
#include "forecast/forecast.h"
#include "tests/recorded.h"
#include "tests/train/trainer_support.h"

namespace moesh::train {
namespace {

// 24 rows in three microbatches.
const std::string kPasses = test::kTinyMixtral +
                            "num_experts=4 vocab_size=24 base_num_kv_heads=2 base_emb_dim=16 base_mlp_dim=16 base_moe_mlp_dim=16 "
                            "max_target_length=8 compile_topology=cpu-8 "
                            "gradient_accumulation_steps=3 per_device_batch_size=1 ici_fsdp_parallelism=1 steps=5 "
                            "learning_rate=0.01 warmup_steps_fraction=0 ";

std::vector<std::vector<double>> trained(const std::string& request) {
  test::Training training(request);
  for (int step = 0; step < 2; ++step) training.trainer.step(training.batch(step));
  std::vector<std::vector<double>> all;
  for (const std::string& path : training.paths()) all.push_back(training.parameter(path));
  return all;
}

double difference(const std::vector<std::vector<double>>& a, const std::vector<std::vector<double>>& b) {
  double square = 0, size = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    for (std::size_t k = 0; k < a[i].size(); ++k) {
      square += (a[i][k] - b[i][k]) * (a[i][k] - b[i][k]);
      size += b[i][k] * b[i][k];
    }
  }
  return std::sqrt(square / size);
}

class ReducedOnce : public ::testing::TestWithParam<std::string> {};

// Only the order in which gradients are added up differs.
TEST_P(ReducedOnce, TrainsAsReducedInEachPass) {
  for (const std::string more : {"", "scan_layers=false", "shard_optimizer_over_data=true", "opt_type=sgd", "shard_mode=explicit",
                                 "remat_policy=minimal", "use_ring_of_experts=true", "sparse_matmul=false",
                                 "sparse_matmul=false capacity_factor=2"}) {
    const std::string request = kPasses + GetParam() + " " + more;
    EXPECT_LT(difference(trained(request + " reduce_gradients=once"), trained(request + " reduce_gradients=each_pass")), 2e-6) << request;
  }
}

INSTANTIATE_TEST_SUITE_P(On, ReducedOnce,
                         ::testing::Values("ici_data_parallelism=8",
                                           "ici_data_parallelism=2 ici_fsdp_parallelism=2 ici_expert_parallelism=2",
                                           "ici_data_parallelism=4 ici_tensor_parallelism=2",
                                           "custom_mesh_and_rule=ep-as-dp ici_expert_parallelism=4 ici_fsdp_parallelism=2",
                                           "ici_data_parallelism=2 ici_context_parallelism=4", "ici_fsdp_parallelism=8"),
                         test::test_name);

// The bytes that a device hands in to reductions over an axis within a step.
std::int64_t reduced_over(const std::string& axis, const std::string& request) {
  const advice::Planned planned = advice::plan_step(test::words_of(request));
  std::int64_t bytes = 0;
  for (const forecast::Sent& sent : planned.step.forecast.collectives) {
    const bool is_reduction = sent.kind == "all-reduce" || sent.kind == "reduce-scatter";
    if (sent.axes == axis && is_reduction) bytes += sent.what.runs * sent.what.operand_bytes;
  }
  return bytes;
}

const std::string kNodes =
    "model_name=mixtral-8x7b compile_topology=h100-8 compile_topology_num_slices=4 dcn_data_parallelism=4 ici_fsdp_parallelism=1 "
    "ici_expert_parallelism=8 per_device_batch_size=1 max_target_length=4096 dtype=float32 ";

TEST(Reduction, SendsGradientsOnceForAnyNumberOfPasses) {
  for (const std::string experts : {"", "use_ring_of_experts=true ", "sparse_matmul=false capacity_factor=1.25 "}) {
    const std::int64_t one_pass = reduced_over("data", kNodes + experts);
    for (const std::string passes : {"2", "8"}) {
      const std::string request = kNodes + experts + "gradient_accumulation_steps=" + passes;
      const auto once = static_cast<double>(reduced_over("data", request + " reduce_gradients=once"));
      EXPECT_NEAR(once / static_cast<double>(one_pass), 1, 0.01) << request;
      const auto often = static_cast<double>(reduced_over("data", request + " reduce_gradients=each_pass"));
      EXPECT_NEAR(often / static_cast<double>(one_pass), std::stod(passes), 0.1) << request;
    }
  }
}

// docs/training.md has these figures.
TEST(Reduction, SavesTimeAndBytes) {
  const std::string request =
      "model_name=mixtral-8x7b compile_topology=h200-8 compile_topology_num_slices=8 ici_fsdp_parallelism=1 ici_expert_parallelism=8 "
      "max_target_length=4096 per_device_batch_size=1 gradient_accumulation_steps=8 ";
  const auto planned = [&](const std::string& more) { return advice::plan_step(test::words_of(request + more)).step.forecast; };
  const auto bytes = [](const forecast::Forecast& f) {
    forecast::SentTotal total;
    for (const forecast::Sent& sent : f.collectives) total.add(sent);
    return total.wire_bytes;
  };
  const forecast::Forecast often = planned("reduce_gradients=each_pass"), chosen = planned("");
  EXPECT_NEAR(chosen.seconds / often.seconds, 0.68, 0.005);
  EXPECT_NEAR(bytes(chosen) / bytes(often), 0.61, 0.005);
}

bool reduces_once(const std::string& request) { return advice::plan_step(test::words_of(request)).step.forecast.reduces_once; }

const std::string kChips =
    "model_name=llama3-8b compile_topology=h100-8 compile_topology_num_slices=4 dcn_data_parallelism=4 ici_fsdp_parallelism=8 "
    "max_target_length=8192 per_device_batch_size=1 ";

TEST(Reduction, IsChosenByWhatAStepTakes) {
  EXPECT_TRUE(reduces_once(kChips + "gradient_accumulation_steps=4"));
  EXPECT_FALSE(reduces_once(kChips + "gradient_accumulation_steps=4 reduce_gradients=each_pass"));
  EXPECT_FALSE(reduces_once(kChips)) << "there is one pass";
  const auto seconds = [](const std::string& more) {
    return advice::plan_step(test::words_of(kChips + "gradient_accumulation_steps=4 " + more)).step.forecast.seconds;
  };
  EXPECT_EQ(seconds(""), std::min(seconds("reduce_gradients=once"), seconds("reduce_gradients=each_pass")));
}

// Under shard_optimizer_over_data a device that adds up gradients holds them whole, not its share.
TEST(Reduction, IsInEachPassWhereOneAtTheEndWouldNotFit) {
  const std::string spread =
      "model_name=llama3-8b compile_topology=h100-64 ici_data_parallelism=16 ici_fsdp_parallelism=1 ici_tensor_parallelism=4 "
      "shard_optimizer_over_data=true max_target_length=8192 gradient_accumulation_steps=4 ";
  EXPECT_TRUE(reduces_once(spread + "per_device_batch_size=0.25"));
  const auto planned = [&](const std::string& more) { return advice::plan_step(test::words_of(spread + more)).step.forecast; };
  const std::string narrow = "per_device_batch_size=2.5 remat_policy=minimal ";
  ASSERT_TRUE(planned(narrow + "reduce_gradients=each_pass").fits());
  ASSERT_FALSE(planned(narrow + "reduce_gradients=once").fits());
  EXPECT_FALSE(reduces_once(spread + narrow));
}

// What waits in the host's memory leaves room for gradients that are added up.
TEST(Reduction, IsOnceWhereThatFitsBesideMomentsOnTheHost) {
  const std::string tight =
      "model_name=llama3-8b compile_topology=h100-64 ici_data_parallelism=16 ici_fsdp_parallelism=1 ici_tensor_parallelism=4 "
      "shard_optimizer_over_data=true max_target_length=8080 gradient_accumulation_steps=4 per_device_batch_size=2.5 remat_policy=minimal ";
  EXPECT_FALSE(reduces_once(tight));
  ASSERT_TRUE(advice::plan_step(test::words_of(tight + "optimizer_memory_host_offload=true reduce_gradients=once")).step.forecast.fits());
  EXPECT_TRUE(reduces_once(tight + "optimizer_memory_host_offload=true"));
}

// Equal gradients of virtual devices exist once; added up apart, they would not.
TEST(Reduction, IsInEachPassOnVirtualDevices) {
  const std::string request = kPasses + "ici_data_parallelism=8 ";
  EXPECT_FALSE(reduces_once(request));
  EXPECT_TRUE(reduces_once(request + "reduce_gradients=once"));
}

}  // namespace
}  // namespace moesh::train
