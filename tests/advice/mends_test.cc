// Advice on realistic layouts: for most kinds of finding ten requests that have it and are mended by every fix offered.
#include <algorithm>
#include <set>

#include <gtest/gtest.h>

#include "tests/advice/advice_on.h"

namespace moesh::advice {
namespace {

using sharding::Check;
using sharding::Finding;
using sharding::Severity;

std::set<std::pair<Check, std::string>> errors_of(const Advice& advice) {
  std::set<std::pair<Check, std::string>> errors;
  for (const Finding& f : advice.findings) {
    if (f.severity == Severity::error) errors.emplace(f.check, f.about);
  }
  return errors;
}

// Applies each fix by itself: the finding must be gone, no new error may appear, and the planned peak memory
// must be the one that the fix promises.
void expect_mended(const std::string& request, const Advice& before, const Finding& finding) {
  for (const sharding::Fix& fix : finding.fixes) {
    const Advice after = advice_on(joined(test::words_of(request), fix.keys));
    for (const Finding& f : after.findings) {
      EXPECT_FALSE(f.check == finding.check && f.about == finding.about) << join(fix.keys, " ") << "\n" << told(after);
    }
    const auto known = errors_of(before);
    for (const auto& error : errors_of(after)) {
      const bool was_not_planned = error.first == Check::does_not_fit && !before.forecast;
      EXPECT_TRUE(known.contains(error) || was_not_planned) << join(fix.keys, " ") << "\n" << told(after);
    }
    if (after.forecast && fix.peak > 0) {
      EXPECT_EQ(after.forecast->memory.peak, fix.peak) << join(fix.keys, " ");
    }
  }
}

void expect_spoken(Check check, const std::vector<std::string>& requests) {
  for (const std::string& request : requests) {
    SCOPED_TRACE(request);
    const Advice advice = advice_on(request);
    const auto of_check = [&](const Finding& f) { return f.check == check; };
    const auto found = std::find_if(advice.findings.begin(), advice.findings.end(), of_check);
    ASSERT_NE(found, advice.findings.end()) << told(advice);
    EXPECT_FALSE(found->fixes.empty()) << told(advice);
    expect_mended(request, advice, *found);
  }
}

// Sizes that the mesh axes do not divide: heads, experts, vocabularies, embeddings.
TEST(AdviseSlow, MendsTenDimsThatDoNotDivide) {
  expect_spoken(Check::uneven, {
      "model_name=llama3-8b compile_topology=v5p-32 ici_tensor_parallelism=16 ici_fsdp_parallelism=1",
      "model_name=llama3-70b compile_topology=h100-64 ici_tensor_parallelism=16 ici_fsdp_parallelism=4 "
      "per_device_batch_size=1",
      "model_name=mixtral-8x7b compile_topology=v5p-32 ici_expert_parallelism=16 ici_fsdp_parallelism=1",
      "model_name=gpt-oss-20b compile_topology=h100-64 ici_expert_parallelism=64 ici_fsdp_parallelism=1 "
      "per_device_batch_size=1",
      "model_name=qwen3-30b-a3b compile_topology=v6e-64 ici_tensor_parallelism=8 ici_fsdp_parallelism=8 "
      "per_device_batch_size=1",
      "model_name=deepseek2-16b compile_topology=v5p-256 ici_expert_parallelism=128 ici_fsdp_parallelism=1 "
      "per_device_batch_size=1",
      "model_name=llama2-7b compile_topology=v6e-8 vocab_size=32001 override_model_config=true "
      "ici_tensor_parallelism=8 ici_fsdp_parallelism=1 per_device_batch_size=1",
      "model_name=llama2-13b compile_topology=h100-48 ici_tensor_parallelism=48 ici_fsdp_parallelism=1 "
      "per_device_batch_size=1",
      "model_name=gemma3-4b compile_topology=v6e-16 ici_tensor_parallelism=16 ici_fsdp_parallelism=1 "
      "per_device_batch_size=1",
      "model_name=llama2-7b compile_topology=a100-24 ici_fsdp_parallelism=24"
  });
}

// Batches that their mesh axes do not divide, or that have fewer rows than those axes have devices.
TEST(AdviseSlow, MendsTenBatchesBelowTheirAxes) {
  expect_spoken(Check::small_batch, {
      "model_name=llama3-8b compile_topology=v5p-32 ici_fsdp_parallelism=16 per_device_batch_size=0.25",
      "model_name=llama2-7b compile_topology=v6e-8 per_device_batch_size=0.5",
      "model_name=llama2-7b compile_topology=v6e-8 per_device_batch_size=1.5",
      "model_name=mixtral-8x7b compile_topology=v5p-64 ici_expert_parallelism=8 ici_fsdp_parallelism=4 "
      "per_device_batch_size=0.125",
      "model_name=deepseek2-16b compile_topology=h100-16 ici_expert_parallelism=8 ici_fsdp_parallelism=2 "
      "per_device_batch_size=0.5",
      "model_name=llama3-70b compile_topology=h100-64 per_device_batch_size=0.5 max_target_length=8192",
      "model_name=qwen3-30b-a3b compile_topology=b200-8 per_device_batch_size=0.25 max_target_length=8192",
      "model_name=llama3.1-70b compile_topology=v5p-256 per_device_batch_size=0.0625 max_target_length=32768",
      "model_name=gpt-oss-20b compile_topology=v6e-16 per_device_batch_size=2.5 ici_fsdp_parallelism=16 "
      "max_target_length=1024",
      "model_name=gemma3-4b compile_topology=v6e-8 per_device_batch_size=0.25 max_target_length=8192"
  });
}

// Also where another error stands in the way, whose fix it then holds. Layouts with stages are the only ones that are not planned.
TEST(AdviseSlow, PlansEachFixThatItOffers) {
  int fixes = 0, with_above = 0;
  for (const std::string model : {"llama3-8b", "mixtral-8x22b", "deepseek2-16b", "gemma3-4b", "gpt-oss-20b"}) {
    for (const char* layout :
         {"compile_topology=h100-24 per_device_batch_size=0.5", "compile_topology=a100-48 ici_tensor_parallelism=48 ici_fsdp_parallelism=1",
          "compile_topology=v4-64 ici_tensor_sequence_parallelism=-1 per_device_batch_size=4 compile_topology_num_slices=2",
          "compile_topology=v6e-16 ici_tensor_parallelism=16 ici_fsdp_parallelism=1 per_device_batch_size=0.1875",
          "compile_topology=h100-24 ici_expert_parallelism=24 ici_fsdp_parallelism=1 logical_axis_rules=[[embed_vocab,[expert]]]",
          "compile_topology=v5p-32 ici_tensor_parallelism=16 ici_fsdp_parallelism=1 logical_axis_rules=[[vocab,[]]] per_device_batch_size=0.5",
          "compile_topology=v5p-32 ici_pipeline_parallelism=4 ici_fsdp_parallelism=4 per_device_batch_size=2"}) {
      const std::string request = "model_name=" + model + " " + layout + (model == "mixtral-8x22b" ? " sparse_matmul=false" : "");
      SCOPED_TRACE(request);
      const auto open = [&] { session::reopen(test::words_of(request), session::Evenness::reported); };
      if (test::message_of(open) != "no error") continue;  // layers that do not divide over stages
      const Advice advice = advice_on(request);
      for (const Finding& finding : advice.findings) {
        for (const sharding::Fix& fix : finding.fixes) {
          ++fixes;
          with_above += fix.holds_fix_above;
          const std::vector<std::string> fixed = joined(test::words_of(request), fix.keys);
          const session::Session session = session::reopen(fixed);
          EXPECT_EQ(session.mesh.size_of("stage") == 1, fix.peak > 0) << join(fix.keys, " ");
          if (fix.peak == 0) continue;
          EXPECT_EQ(plan_step(session).forecast.memory.peak, fix.peak) << join(fix.keys, " ");
        }
      }
    }
  }
  EXPECT_GT(fixes, 60);
  EXPECT_GT(with_above, 5);
}

// Parameters that an axis does not shard, because the rules lack it or because the rule set is meant for another use of the axis.
TEST(AdviseSlow, MendsTenParametersThatLeaveAxesOut) {
  expect_spoken(Check::sharding_tolerance, {
      "model_name=llama2-7b compile_topology=v6e-8 logical_axis_rules=[[embed_vocab,[]]]",
      "model_name=llama2-7b compile_topology=v6e-8 ici_tensor_parallelism=8 ici_fsdp_parallelism=1 "
      "logical_axis_rules=[[mlp,[]],[heads,[]],[q_heads,[]],[kv_heads,[]]]",
      "model_name=mixtral-8x7b compile_topology=v5p-32 custom_mesh_and_rule=ep-as-dp ici_expert_parallelism=8 "
      "ici_fsdp_parallelism=2 sharding_tolerance=0.01",
      "model_name=llama3-8b compile_topology=v5p-32 ici_fsdp_parallelism=8 ici_tensor_parallelism=2 "
      "logical_axis_rules=[[mlp,[]]] per_device_batch_size=2",
      "model_name=mixtral-8x7b compile_topology=v5p-64 ici_fsdp_parallelism=8 ici_expert_parallelism=4 "
      "logical_axis_rules=[[exp,[]]] per_device_batch_size=4",
      "model_name=deepseek2-16b compile_topology=h100-16 ici_fsdp_parallelism=4 ici_expert_parallelism=4 "
      "logical_axis_rules=[[embed_moe,[]]] per_device_batch_size=4",
      "model_name=llama3-8b compile_topology=h100-16 ici_fsdp_parallelism=8 ici_context_parallelism=2 "
      "logical_axis_rules=[[embed,[fsdp]],[embed_vocab,[fsdp]]] per_device_batch_size=1",
      "model_name=gpt-oss-20b compile_topology=v6e-32 ici_fsdp_parallelism=8 ici_expert_parallelism=4 "
      "custom_mesh_and_rule=fsdp-as-dp-for-attn per_device_batch_size=2 max_target_length=1024",
      "model_name=gemma3-4b compile_topology=v6e-8 ici_fsdp_parallelism=8 logical_axis_rules=[[embed_vocab,[]]] "
      "per_device_batch_size=1",
      "model_name=qwen3-30b-a3b compile_topology=v5p-64 ici_fsdp_parallelism=16 ici_expert_parallelism=2 "
      "logical_axis_rules=[[exp,[]],[embed_moe,[fsdp]]] per_device_batch_size=2"
  });
}

// Axes that shard at most weights, so that their devices repeat the same work.
TEST(AdviseSlow, MendsTenWorkThatDevicesRepeat) {
  expect_spoken(Check::repeated_work, {
      "model_name=llama2-7b compile_topology=v6e-8 override_logical_axis_rules=true "
      "logical_axis_rules=[[embed,[fsdp]],[mlp,[fsdp]],[activation_batch,[data]]]",
      "model_name=llama2-7b compile_topology=v6e-8 ici_fsdp_parallelism=1 ici_tensor_parallelism=4 "
      "ici_context_parallelism=2 "
      "logical_axis_rules=[[activation_batch,[data,fsdp]],[activation_length,[]],[activation_norm_length,[]],"
      "[activation_length_attn,[]]]",
      "model_name=llama2-7b compile_topology=v6e-8 "
      "logical_axis_rules=[[activation_batch,[data]],[activation_batch_attn,[data]],"
      "[activation_kv_batch,[data]],[activation_embed_and_logits_batch,[data]]] per_device_batch_size=1",
      "model_name=llama3-8b compile_topology=v5p-32 ici_fsdp_parallelism=4 ici_expert_parallelism=4 "
      "logical_axis_rules=[[activation_batch,[data,fsdp]],[activation_batch_attn,[data,fsdp]],"
      "[activation_kv_batch,[data,fsdp]],[activation_embed_and_logits_batch,[data,fsdp]]] per_device_batch_size=2",
      "model_name=llama2-7b compile_topology=v6e-8 ici_context_parallelism=4 ici_fsdp_parallelism=2 "
      "logical_axis_rules=[[activation_length,[]],[activation_norm_length,[]],[activation_length_attn,[]],"
      "[activation_input_length_attn,[]]] per_device_batch_size=1",
      "model_name=mixtral-8x7b compile_topology=v5p-32 ici_expert_parallelism=4 ici_fsdp_parallelism=4 "
      "logical_axis_rules=[[activation_batch,[data,fsdp]],[activation_batch_attn,[data,fsdp]],"
      "[activation_kv_batch,[data,fsdp]],[activation_embed_and_logits_batch,[data,fsdp]]] per_device_batch_size=2",
      "model_name=deepseek2-16b compile_topology=h100-16 ici_fsdp_parallelism=8 ici_fsdp_transpose_parallelism=2 "
      "logical_axis_rules=[[activation_batch,[data,fsdp]],[activation_batch_attn,[data,fsdp]],"
      "[activation_kv_batch,[data,fsdp]],[activation_embed_and_logits_batch,[data,fsdp]]] per_device_batch_size=2",
      "model_name=gemma3-4b compile_topology=h100-8 ici_fsdp_parallelism=4 ici_data_parallelism=2 "
      "logical_axis_rules=[[activation_batch,[data]],[activation_batch_attn,[data]],"
      "[activation_kv_batch,[data]],[activation_embed_and_logits_batch,[data]]] per_device_batch_size=2",
      "model_name=qwen3-30b-a3b compile_topology=v5p-32 ici_fsdp_parallelism=8 ici_context_parallelism=2 "
      "logical_axis_rules=[[activation_length,[]],[activation_norm_length,[]],[activation_length_attn,[]],"
      "[activation_input_length_attn,[]],[activation_length_moe,[]],[activation_norm_length_moe,[]]] "
      "per_device_batch_size=2",
      "model_name=llama2-13b compile_topology=v6e-16 "
      "logical_axis_rules=[[activation_batch,[data]],[activation_batch_attn,[data]],"
      "[activation_kv_batch,[data]],[activation_embed_and_logits_batch,[data]]] per_device_batch_size=1"
  });
}

// Axes that carry traffic in every layer across slices or nodes.
TEST(AdviseSlow, MendsTenTrafficInEveryLayerOverSlowLinks) {
  expect_spoken(Check::slow_link, {
      "model_name=deepseek2-16b compile_topology=h100-16 ici_expert_parallelism=16 ici_fsdp_parallelism=1 "
      "per_device_batch_size=4",
      "model_name=llama2-7b compile_topology=v4-32 compile_topology_num_slices=4 dcn_tensor_parallelism=4 "
      "ici_fsdp_parallelism=16 per_device_batch_size=1",
      "model_name=mixtral-8x7b compile_topology=v5p-32 compile_topology_num_slices=2 dcn_expert_parallelism=2 "
      "ici_expert_parallelism=4 ici_fsdp_parallelism=4",
      "model_name=llama3-8b compile_topology=v5e-16 compile_topology_num_slices=4 dcn_fsdp_parallelism=4 "
      "ici_fsdp_parallelism=16 per_device_batch_size=1 max_target_length=1024",
      "model_name=llama2-7b compile_topology=v6e-16 compile_topology_num_slices=2 dcn_context_parallelism=2 "
      "ici_fsdp_parallelism=16 per_device_batch_size=2",
      "model_name=llama2-7b compile_topology=v5p-16 compile_topology_num_slices=2 dcn_fsdp_transpose_parallelism=2 "
      "ici_fsdp_parallelism=8 per_device_batch_size=2",
      "model_name=qwen3-30b-a3b compile_topology=h100-64 ici_expert_parallelism=64 ici_fsdp_parallelism=1 "
      "per_device_batch_size=2",
      "model_name=mixtral-8x7b compile_topology=h100-64 ici_expert_parallelism=8 ici_tensor_parallelism=8 "
      "ici_fsdp_parallelism=1 per_device_batch_size=1",
      "model_name=gpt-oss-20b compile_topology=h100-32 ici_expert_parallelism=32 ici_fsdp_parallelism=1 "
      "per_device_batch_size=4",
      "model_name=deepseek2-16b compile_topology=v6e-16 compile_topology_num_slices=4 dcn_expert_parallelism=4 "
      "ici_fsdp_parallelism=16 per_device_batch_size=2"
  });
}

// The capacity path without its dispatch flag: the batch takes the mesh axis that the experts need.
TEST(AdviseSlow, MendsTenDispatchesThatLoseTheirExperts) {
  expect_spoken(Check::competing_dims, {
      "model_name=mixtral-8x7b compile_topology=mi355x-8 ici_expert_parallelism=-1 sparse_matmul=False "
      "capacity_factor=1.25 per_device_batch_size=11",
      "model_name=mixtral-8x7b compile_topology=mi300x-8 ici_expert_parallelism=8 ici_fsdp_parallelism=1 "
      "sparse_matmul=False capacity_factor=1.25 per_device_batch_size=4",
      "model_name=mixtral-8x7b compile_topology=v5p-64 ici_expert_parallelism=8 ici_fsdp_parallelism=4 "
      "sparse_matmul=False capacity_factor=1.25 per_device_batch_size=4",
      "model_name=mixtral-8x7b compile_topology=v5p-32 ici_expert_parallelism=4 ici_fsdp_parallelism=4 "
      "sparse_matmul=False capacity_factor=1.25 per_device_batch_size=4",
      "model_name=mixtral-8x7b compile_topology=v6e-64 ici_expert_parallelism=8 ici_fsdp_parallelism=8 "
      "sparse_matmul=False capacity_factor=1.25 per_device_batch_size=2",
      "model_name=mixtral-8x22b compile_topology=v5p-256 ici_expert_parallelism=8 ici_fsdp_parallelism=16 "
      "sparse_matmul=False capacity_factor=1.25 per_device_batch_size=2",
      "model_name=mixtral-8x22b compile_topology=mi355x-32 ici_expert_parallelism=8 ici_fsdp_parallelism=4 "
      "sparse_matmul=False capacity_factor=1.25 per_device_batch_size=2",
      "model_name=mixtral-8x7b compile_topology=h200-16 ici_expert_parallelism=8 ici_fsdp_parallelism=2 "
      "sparse_matmul=False capacity_factor=1.25 per_device_batch_size=2",
      "model_name=deepseek2-16b compile_topology=h100-8 ici_expert_parallelism=8 ici_fsdp_parallelism=1 "
      "sparse_matmul=False capacity_factor=1.25 per_device_batch_size=2",
      "model_name=qwen3-30b-a3b compile_topology=h100-8 ici_expert_parallelism=8 ici_fsdp_parallelism=1 "
      "sparse_matmul=False capacity_factor=1.25 per_device_batch_size=1"
  });
}

// Mesh axes that shard no tensor.
TEST(AdviseSlow, MendsUnusedAxes) {
  expect_spoken(Check::unused_axis, {
      "model_name=llama2-7b compile_topology=v6e-8 ici_expert_parallelism=2 override_logical_axis_rules=true "
      "logical_axis_rules=[[embed,[fsdp]],[activation_batch,[fsdp]]]",
      "model_name=llama2-7b compile_topology=v6e-8 ici_autoregressive_parallelism=2 "
      "logical_axis_rules=[[vocab,[tensor]],[heads,[tensor]],[q_heads,[tensor]],[kv_heads,[tensor]],"
      "[mlp,[tensor]],[activation_heads,[tensor]]] per_device_batch_size=2",
      "model_name=llama2-7b compile_topology=h100-8 ici_data_parallelism=2 ici_fsdp_parallelism=4 "
      "logical_axis_rules=[[activation_batch,[fsdp]],[activation_batch_attn,[fsdp]],"
      "[activation_kv_batch,[fsdp]],[activation_embed_and_logits_batch,[fsdp]]] per_device_batch_size=2",
      "model_name=llama3-8b compile_topology=v5p-32 ici_context_parallelism=2 ici_fsdp_parallelism=8 "
      "per_device_batch_size=2 override_logical_axis_rules=true "
      "logical_axis_rules=[[embed,[fsdp]],[embed_vocab,[fsdp]],[activation_batch,[fsdp]],"
      "[activation_batch_attn,[fsdp]],[activation_kv_batch,[fsdp]],[activation_embed_and_logits_batch,[fsdp]]]",
      "model_name=mixtral-8x7b compile_topology=v5p-32 ici_tensor_parallelism=2 ici_fsdp_parallelism=8 "
      "per_device_batch_size=2 override_logical_axis_rules=true "
      "logical_axis_rules=[[embed,[fsdp]],[embed_vocab,[fsdp]],[embed_moe,[fsdp]],[activation_batch,[fsdp]],"
      "[activation_batch_attn,[fsdp]],[activation_kv_batch,[fsdp]],[activation_embed_and_logits_batch,[fsdp]]]"
  });
}

// Ten rules of the command line that contradict others, the mesh or the model.
TEST(AdviseSlow, MendsTenContradictoryRules) {
  const std::vector<std::pair<Check, std::string>> requests{
      {Check::idle_rule,
       "model_name=llama2-7b compile_topology=v6e-8 per_device_batch_size=2 logical_axis_rules=[[mpl,[tensor]]]"},
      {Check::idle_rule,
       "model_name=llama2-7b compile_topology=v6e-8 per_device_batch_size=2 "
       "logical_axis_rules=[[mlp,[tensor]],[mlp,[fsdp]]]"},
      {Check::idle_rule,
       "model_name=llama2-7b compile_topology=v6e-8 per_device_batch_size=2 "
       "logical_axis_rules=[[activation_batchs,[fsdp]]]"},
      {Check::idle_rule,
       "model_name=llama2-7b compile_topology=v6e-8 per_device_batch_size=2 "
       "logical_axis_rules=[[embed,[fsdp]],[embed,[fsdp,tensor]]] ici_tensor_parallelism=2"},
      {Check::idle_rule,
       "model_name=mixtral-8x7b compile_topology=v5p-64 ici_expert_parallelism=4 per_device_batch_size=2 "
       "logical_axis_rules=[[expp,[expert]]]"},
      {Check::idle_rule,
       "model_name=mixtral-8x7b compile_topology=v5p-64 ici_expert_parallelism=4 per_device_batch_size=2 "
       "logical_axis_rules=[[exp,[expert]],[mlp_moe,[expert]]]"},
      {Check::idle_rule,
       "model_name=deepseek2-16b compile_topology=h100-16 ici_fsdp_parallelism=16 per_device_batch_size=2 "
       "logical_axis_rules=[[q_lora_rank,[fsdp]]]"},
      {Check::idle_rule,
       "model_name=llama3-8b compile_topology=h100-16 per_device_batch_size=2 "
       "logical_axis_rules=[[vocab,[fsdp]],[embed_vocab,[fsdp]]]"},
      {Check::absent_axis,
       "model_name=llama3-8b compile_topology=h100-16 per_device_batch_size=2 mesh_axes=[data,fsdp,tensor] "
       "override_logical_axis_rules=true "
       "logical_axis_rules=[[activation_batch,[data,fsdp]],[activation_batch_attn,[data,fsdp]],"
       "[activation_kv_batch,[data,fsdp]],[activation_embed_and_logits_batch,[data,fsdp]],[embed,[fsdp]],"
       "[embed_vocab,[fsdp]],[mlp,[tensor,expert]]]"},
      {Check::blocked_by_one,
       "model_name=llama2-7b compile_topology=v6e-8 per_device_batch_size=2 override_logical_axis_rules=true "
       "logical_axis_rules=[[activation_batch,[fsdp]],[activation_batch_attn,[fsdp]],"
       "[activation_kv_batch,[fsdp]],[activation_embed_and_logits_batch,[fsdp]],[mlp,[tensor]],[heads,[tensor]],"
       "[q_heads,[tensor]],[kv_heads,[tensor]],[vocab,[tensor]],[embed,[fsdp,tensor]],[embed_vocab,[fsdp]]]"}};
  for (const auto& [check, request] : requests) expect_spoken(check, {request});
}

TEST(Advise, TellsOfProductsInFloat32) {
  expect_spoken(Check::float32_products,
                {"model_name=llama2-7b compile_topology=a100-8 dtype=float32 per_device_batch_size=1 matmul_precision=highest",
                 "model_name=mixtral-8x7b compile_topology=v5p-64 dtype=float32 per_device_batch_size=4 matmul_precision=highest",
                 "model_name=gemma2-2b compile_topology=v6e-8 dtype=float32 matmul_precision=high"});
  for (const std::string request : {"model_name=llama2-7b compile_topology=cpu-8 dtype=float32 per_device_batch_size=1",
                                    "model_name=llama2-7b compile_topology=a100-8 weight_dtype=float32 per_device_batch_size=1"}) {
    for (const Finding& f : advice_on(request).findings) EXPECT_NE(f.check, Check::float32_products) << request;
  }
}

}  // namespace
}  // namespace moesh::advice
