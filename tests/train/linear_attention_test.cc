// Models with linear attention: what they are refused for, what a step takes, and that memories go through whole rows in their order.
#include <gmock/gmock.h>

#include "tests/config/small_models.h"
#include "tests/train/trainer_support.h"
#include "train/model_size.h"

namespace moesh {
namespace {

using test::kQwenNext;
using test::Training;
using ::testing::HasSubstr;

const std::string kFloatNext = kQwenNext + "dtype=float32 ";

std::string refused_next(const std::string& request) {
  return test::message_of([&] { test::session(request); });
}

TEST(LinearAttention, IsRefusedWhatItsFamilyDoesNotHave) {
  EXPECT_THAT(refused_next(kQwenNext + "gdn_num_value_heads=3"),
              HasSubstr("3 heads of values over 2 of keys in linear attention, a whole number for each was expected\n"
                        "  fix: choose gdn_num_key_heads so that it divides"));
  EXPECT_THAT(refused_next(kQwenNext + "partial_rotary_factor=0.4"),
              HasSubstr("3 of 8 dims of a head are rotated, an even number was expected"));
  EXPECT_THAT(refused_next(kQwenNext + "rope_type=llama3.1"),
              HasSubstr("decoder_block=qwen3_next rotates halves of a head, not neighbours"));
  for (const std::string key : {"fused_qkv", "attention_sink"}) {
    EXPECT_THAT(refused_next(kQwenNext + key + "=true"),
                HasSubstr(key + "=true is not there for decoder_block=qwen3_next\n  fix: " + key + "=false"));
  }
  EXPECT_THAT(refused_next(kQwenNext + "layer_attention=[full,full]"),
              HasSubstr("layer_attention is not heeded by decoder_block=qwen3_next"));
  EXPECT_THAT(refused_next(kQwenNext + "mtp_num_layers=1"),
              HasSubstr("multi-token prediction is not there for decoder_block=qwen3_next"));
  EXPECT_THAT(refused_next(kQwenNext + "num_experts=1"), HasSubstr("decoder_block=qwen3_next has at least 2"));
}

double first_loss_of(const std::string& request) {
  Training training(request);
  return training.trainer.run_step(training.batch()).metrics.loss;
}

// A row that is stored in a balanced order, or over several devices, is remembered in its own.
TEST(LinearAttention, RemembersARowInItsOrder) {
  const std::string request = kFloatNext + "max_target_length=16 base_num_kv_heads=2 ";
  const double one = first_loss_of(request + "compile_topology=cpu-1 per_device_batch_size=2");
  for (const std::string mesh : {"ici_context_parallelism=2 ", "ici_context_parallelism=2 context_parallel_load_balance=false ",
                                 "ici_tensor_parallelism=2 "}) {
    const std::string on_two = request + "compile_topology=cpu-2 per_device_batch_size=1 ici_fsdp_parallelism=1 " + mesh;
    EXPECT_NEAR(first_loss_of(on_two), one, 2e-6) << mesh;
  }
}

// The arithmetic by MaxText's count: a token goes four times through each memory, forward, and has no keys to look at.
TEST(LinearAttention, TakesAsLongForATokenOfAnyRow) {
  const auto flops = [](std::int64_t length, const std::string& more) {
    const session::Session session = test::session(kFloatNext + more);
    return train::model_size(session.graph, session.shape, 64, length).step_flops;
  };
  const std::string linear = "inhomogeneous_layer_cycle_interval=3 base_num_decoder_layers=3 gdn_value_head_dim=";
  const std::string full = "inhomogeneous_layer_cycle_interval=1 base_num_decoder_layers=1 ";
  // One of three layers has attention, so a third as much depends on the length as in three such layers.
  EXPECT_NEAR(flops(64, linear + "8") - flops(32, linear + "8"), flops(64, full) - flops(32, full), 1);
  const session::Session session = test::session(kFloatNext + linear + "8");
  const config::DeltaShape& delta = session.shape.delta;
  const auto columns = static_cast<double>(delta.value_heads * delta.value_dim);
  // Twice the width of values: as many more multiplications of two layers' memories, parameters of theirs, and channels of the window.
  const auto of_parameters = [&](const std::string& width) {
    const session::Session wide = test::session(kFloatNext + linear + width);
    return static_cast<double>(train::model_size(wide.graph, wide.shape, 1, 1).active);
  };
  const double more = 6 * 64 * (of_parameters("16") - of_parameters("8") + 2 * 4 * columns * static_cast<double>(delta.key_dim));
  EXPECT_NEAR(flops(32, linear + "16") - flops(32, linear + "8"), more, 1);
}

}  // namespace
}  // namespace moesh
