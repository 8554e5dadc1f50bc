// Steps that the reference's compiler has compiled, scaled down so that they can run: each transfers what is listed for it ahead of time.
#include <map>
#include <string>

#include <gtest/gtest.h>

#include "forecast/forecast.h"
#include "tests/train/trainer_support.h"

namespace moesh::train {
namespace {

const std::string kScaledDown =
    "compile_topology=cpu-8 override_model_config=true base_emb_dim=32 base_num_query_heads=8 base_num_kv_heads=8 head_dim=8 "
    "base_mlp_dim=64 base_num_decoder_layers=3 vocab_size=64 max_target_length=32 per_device_batch_size=4 dataset_type=synthetic "
    "remat_policy=full ";
const std::string kScaledMixtral = kScaledDown + "model_name=mixtral-8x7b base_moe_mlp_dim=64 ";
const std::string kDeepseek =
    kScaledDown + "model_name=deepseek2-16b base_moe_mlp_dim=32 num_experts=16 kv_lora_rank=16 qk_nope_head_dim=8 qk_rope_head_dim=4 "
             "v_head_dim=8 ";

class ScaledDown : public ::testing::TestWithParam<std::string> {};

TEST_P(ScaledDown, MovesWhatIsListedAhead) {
  constexpr std::int64_t steps = 2;
  test::Training training(GetParam() + " owners=4");
  for (std::int64_t step = 0; step < steps; ++step) training.trainer.step(training.batch(step));
  const run::Audit audit = training.trainer.audit();
  EXPECT_EQ(audit.difference(), "");
  std::map<plan::InstructionId, run::AuditLine> done;
  for (const run::AuditLine& line : audit.collectives) done[line.instruction] = line;

  const session::Session& session = training.session;
  const StepProgram program = step_program(session.graph, training.settings(), {session.layout, session.target});
  const forecast::Forecast ahead = forecast::forecast(program.plan, session.layout, session.target, {});
  EXPECT_GE(ahead.collectives.size(), 10u);
  for (const forecast::Sent& sent : ahead.collectives) {
    ASSERT_TRUE(done.contains(sent.instruction)) << sent.name;
    const run::AuditLine& line = done[sent.instruction];
    EXPECT_EQ(line.runs, steps * sent.what.runs) << sent.cause;
    const double listed = static_cast<double>(steps * session.mesh.devices()) * sent.what.total_wire_bytes();
    if (line.is_bound) {
      EXPECT_LE(static_cast<double>(line.bytes), 2 * listed) << sent.cause << ": listed for an even router";
    } else {
      EXPECT_EQ(static_cast<double>(line.bytes), listed) << sent.kind << " for " << sent.cause;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Compiled, ScaledDown,
    ::testing::Values(kScaledMixtral + "ici_fsdp_parallelism=2 ici_expert_parallelism=4",
                      kScaledMixtral + "ici_fsdp_parallelism=2 ici_expert_parallelism=4 use_ring_of_experts=true",
                      kScaledMixtral + "ici_fsdp_parallelism=2 ici_expert_parallelism=4 sparse_matmul=false capacity_factor=1.25",
                      kScaledMixtral + "ici_fsdp_parallelism=2 ici_expert_parallelism=4 sparse_matmul=false capacity_factor=1.25 "
                                 "moe_dispatch_no_expert_sharding=true",
                      kDeepseek + "custom_mesh_and_rule=shard-exp-on-fsdp ici_fsdp_parallelism=4 ici_expert_parallelism=2",
                      kDeepseek + "custom_mesh_and_rule=ep-as-cp ici_fsdp_parallelism=4 ici_expert_parallelism=2",
                      kScaledDown + "model_name=llama2-7b ici_fsdp_parallelism=4 ici_tensor_parallelism=2"));

}  // namespace
}  // namespace moesh::train
