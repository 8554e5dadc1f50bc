// Advice on realistic layouts: what it finds, what it leaves unsaid, and sound layouts on which nothing is said.
#include "advice/advise.h"

#include <algorithm>
#include <random>

#include <fmt/core.h>
#include <gmock/gmock.h>

#include "advice/checks.h"
#include "session/reopen.h"
#include "tests/advice/advice_on.h"

namespace moesh::advice {
namespace {

using sharding::Check;
using sharding::Finding;
using sharding::Severity;

// Common layouts that are sound.
TEST(AdviseSlow, IsSilentOnSoundLayouts) {
  for (const std::string request : {"model_name=llama2-7b compile_topology=v6e-8",
                                    "model_name=mixtral-8x7b compile_topology=v6e-64 ici_expert_parallelism=4 per_device_batch_size=4",
                                    "model_name=llama3-70b compile_topology=h100-256 ici_fsdp_parallelism=32 ici_tensor_parallelism=8 "
                                    "max_target_length=8192 per_device_batch_size=2",
                                    "model_name=mixtral-8x7b compile_topology=v5p-128 ici_fsdp_parallelism=64 max_target_length=4096 "
                                    "per_device_batch_size=24 weight_dtype=bfloat16",
                                    "model_name=deepseek2-16b compile_topology=v5p-8 ici_fsdp_parallelism=4 max_target_length=2048 "
                                    "per_device_batch_size=24",
                                    "model_name=mixtral-8x7b compile_topology=v5p-64 ici_expert_parallelism=8 ici_tensor_parallelism=4 "
                                    "per_device_batch_size=1",
                                    "model_name=llama3.1-70b compile_topology=h200-8 compile_topology_num_slices=32 ici_fsdp_parallelism=8 "
                                    "dcn_data_parallelism=2 dcn_fsdp_parallelism=16 max_target_length=8192 per_device_batch_size=2",
                                    "model_name=mixtral-8x7b compile_topology=h200-256 ici_fsdp_parallelism=32 ici_expert_parallelism=8 "
                                    "max_target_length=4096 per_device_batch_size=2 gradient_accumulation_steps=2 sparse_matmul=false "
                                    "capacity_factor=1 moe_dispatch_no_expert_sharding=true",
                                    "model_name=llama3-8b compile_topology=h100-64 ici_fsdp_parallelism=8 ici_tensor_parallelism=8 "
                                    "max_target_length=8192 per_device_batch_size=1.5",
                                    "model_name=llama2-7b compile_topology=h100-96 ici_data_parallelism=12 ici_fsdp_parallelism=8 "
                                    "max_target_length=4096 per_device_batch_size=2",
                                    "model_name=qwen3-30b-a3b compile_topology=b200-8 ici_fsdp_parallelism=8 max_target_length=8192 "
                                    "per_device_batch_size=8",
                                    "model_name=llama3.1-70b compile_topology=tpu7x-512 ici_fsdp_parallelism=64 ici_context_parallelism=8 "
                                    "max_target_length=131072 per_device_batch_size=0.125",
                                    "model_name=deepseek3-671b compile_topology=h200-512 ici_expert_parallelism=64 ici_fsdp_parallelism=8 "
                                    "max_target_length=4096 per_device_batch_size=1"}) {
    const Advice advice = advice_on(request);
    for (const Finding& f : advice.findings) EXPECT_EQ(f.check, Check::exposed_exchange) << request << "\n" << told(advice);
  }
}

const Finding* find(const Advice& advice, Check check) {
  const auto found = std::find_if(advice.findings.begin(), advice.findings.end(), [&](const Finding& f) { return f.check == check; });
  return found == advice.findings.end() ? nullptr : &*found;
}

TEST(AdviseSlow, FindsPassesThatABatchNeedNotTake) {
  const std::string request = "model_name=gemma3-27b compile_topology=b200-64 ici_data_parallelism=8 ici_fsdp_parallelism=8 per_device_batch_size=";
  const Advice many = advice_on(request + "1 gradient_accumulation_steps=8");
  const Finding* found = find(many, Check::many_passes);
  ASSERT_NE(found, nullptr) << told(many);
  EXPECT_EQ(found->fixes.front().keys, (Keys{"per_device_batch_size=8", "gradient_accumulation_steps=1"}));
  EXPECT_EQ(find(advice_on(request + "8 gradient_accumulation_steps=1"), Check::many_passes), nullptr);
}

TEST(AdviseSlow, FindsExpertsThatComputeEveryToken) {
  const std::string request = "model_name=deepseek3-671b compile_topology=v5p-512 ici_expert_parallelism=16 per_device_batch_size=1 ";
  const Advice dense = advice_on(request + "sparse_matmul=False");
  const Finding* found = find(dense, Check::dense_experts);
  ASSERT_NE(found, nullptr) << told(dense);
  EXPECT_EQ(found->cost, "a token chooses 8 of 256 experts, so they do 32 times the work");
  EXPECT_GT(found->fixes.front().faster, 2);
  EXPECT_EQ(find(advice_on(request + "sparse_matmul=False capacity_factor=1.25"), Check::dense_experts), nullptr);
  EXPECT_EQ(find(advice_on(request), Check::dense_experts), nullptr);
}

// Of a step in which experts wait for tokens a tenth of the time, chunks of these hide some of it.
TEST(AdviseSlow, FindsAnExchangeThatChunksWouldHide) {
  const std::string request =
      "model_name=deepseek3-671b base_num_decoder_layers=8 override_model_config=true compile_topology=v5p-512 ici_fsdp_parallelism=8 "
      "ici_expert_parallelism=32 per_device_batch_size=2 max_target_length=4096 sparse_matmul=true ragged_buffer_factor=1.5 ";
  const Advice exposed = advice_on(request);
  const Finding* found = find(exposed, Check::exposed_exchange);
  ASSERT_NE(found, nullptr) << told(exposed);
  EXPECT_EQ(found->severity, sharding::Severity::info);
  EXPECT_TRUE(found->what.starts_with("experts wait for tokens ")) << found->what;
  EXPECT_TRUE(found->cost.ends_with(" a step; in chunks or in parts of the batch, some are sent while others are multiplied")) << found->cost;
  ASSERT_FALSE(found->fixes.empty());
  EXPECT_EQ(found->fixes.front().keys.front(), "use_batch_split_schedule=true");
  EXPECT_GE(found->fixes.front().faster, 1.05);
  EXPECT_EQ(find(advice_on(joined(test::words_of(request), found->fixes.front().keys)), Check::exposed_exchange), nullptr);
}

// Steps that wait for the weights' gathers or for the batch's passes, and need not. Every fix gives the speed that it promises.
TEST(AdviseSlow, MakesTenStepsThatWaitFaster) {
  for (const std::string request :
       {"model_name=mixtral-8x22b compile_topology=h100-128 per_device_batch_size=1",
        "model_name=mixtral-8x7b compile_topology=h100-128 per_device_batch_size=1",
        "model_name=mixtral-8x22b compile_topology=h100-8 compile_topology_num_slices=16 per_device_batch_size=1 "
        "dcn_data_parallelism=1 dcn_fsdp_parallelism=16",
        "model_name=qwen3-235b-a22b compile_topology=h100-256 per_device_batch_size=1",
        "model_name=qwen3-30b-a3b compile_topology=b200-64 per_device_batch_size=1 max_target_length=4096",
        "model_name=deepseek3-671b compile_topology=tpu7x-256 ici_fsdp_parallelism=256 per_device_batch_size=4",
        "model_name=deepseek2-16b compile_topology=mi355x-64 per_device_batch_size=1",
        "model_name=llama2-7b compile_topology=v6e-64 per_device_batch_size=1 gradient_accumulation_steps=8",
        "model_name=llama3-70b compile_topology=h100-256 per_device_batch_size=1 max_target_length=2048 gradient_accumulation_steps=4",
        "model_name=gpt-oss-120b compile_topology=h200-64 per_device_batch_size=1"}) {
    SCOPED_TRACE(request);
    const Advice before = advice_on(request);
    const auto found = std::find_if(before.findings.begin(), before.findings.end(), [](const Finding& f) {
      return f.check == Check::waits || f.check == Check::slow_link || f.check == Check::many_passes;
    });
    ASSERT_NE(found, before.findings.end()) << told(before);
    ASSERT_FALSE(found->fixes.empty());
    EXPECT_GE(found->fixes.front().faster, found->check == Check::slow_link ? 1.02 : 1.2);
    for (const sharding::Fix& fix : found->fixes) {
      const Advice after = advice_on(joined(test::words_of(request), fix.keys));
      ASSERT_TRUE(after.forecast) << told(after);
      EXPECT_NEAR(after.forecast->tokens_per_second_per_device / before.forecast->tokens_per_second_per_device, fix.faster, 1e-9);
      EXPECT_TRUE(after.forecast->fits());
    }
  }
}

// Waste is no reason to make a step slower.
TEST(Advise, OffersNoSlowerStepWhereAFasterOneIsAtHand) {
  const Advice advice = advice_on("model_name=llama2-7b compile_topology=v6e-32 per_device_batch_size=0.3");
  const auto found =
      std::find_if(advice.findings.begin(), advice.findings.end(), [](const Finding& f) { return f.check == Check::small_batch; });
  ASSERT_NE(found, advice.findings.end()) << told(advice);
  ASSERT_FALSE(found->fixes.empty());
  for (const sharding::Fix& fix : found->fixes) EXPECT_GE(fix.faster, 1) << join(fix.keys, " ");
}

// What lint lets pass can be planned, and what it calls an error of sizes cannot.
TEST(AdviseSlow, AgreesWithThePlannerOnWhatCanBeLaidOut) {
  std::mt19937 random(26);
  const auto one_of = [&](const std::vector<std::string>& words) { return words[random() % words.size()]; };
  int refused = 0, planned = 0;
  for (int draw = 0; draw < 80; ++draw) {
    std::vector<std::string> request{"model_name=" + one_of({"llama3-8b", "mixtral-8x7b", "deepseek2-16b", "gpt-oss-20b", "qwen3-30b-a3b"}),
                                     "compile_topology=h100-16", "max_target_length=" + one_of({"2048", "2050", "2040", "1001", "96"}),
                                     "per_device_batch_size=" + one_of({"1", "2", "3", "0.5", "0.125"}), "ici_fsdp_parallelism=-1"};
    if (random() % 3 == 0) request.push_back("custom_mesh_and_rule=" + one_of({"ep-as-cp", "ep-tp", "cp-as-ep", "pure-fsdp"}));
    for (const char* axis : {"data", "expert", "tensor", "tensor_sequence", "context", "fsdp_transpose"}) {
      if (random() % 4 == 0) request.push_back(fmt::format("ici_{}_parallelism={}", axis, one_of({"2", "4"})));
    }
    if (random() % 3 == 0) request.push_back("sparse_matmul=" + one_of({"true", "false"}));
    if (random() % 4 == 0) request.push_back("gradient_accumulation_steps=2");
    if (random() % 4 == 0) request.push_back("context_parallel_load_balance=false");
    std::optional<session::Session> session;
    try {
      session = session::reopen(request, session::Evenness::reported);
    } catch (const Error&) {
      continue;  // refused before sizes are looked at
    }
    const Advice advice = advise(request, *session);
    const bool has_error = std::any_of(advice.findings.begin(), advice.findings.end(), [](const Finding& f) {
      return f.severity == Severity::error && f.check != Check::does_not_fit && f.check != Check::sharding_tolerance;
    });
    EXPECT_EQ(has_error, !try_keys(request, {})) << join(request, " ") << "\n" << told(advice);
    ++(has_error ? refused : planned);
  }
  EXPECT_GT(refused, 10);
  EXPECT_GT(planned, 10);
}

TEST(Advise, PutsFirstThatAStepDoesNotFit) {
  const Advice advice = advice_on("model_name=llama2-7b compile_topology=v6e-8 ici_data_parallelism=8 ici_fsdp_parallelism=1");
  ASSERT_FALSE(advice.findings.empty());
  EXPECT_EQ(advice.findings.front().check, Check::does_not_fit);
  EXPECT_EQ(advice.findings.front().fixes.front().keys, (Keys{"ici_data_parallelism=1", "ici_fsdp_parallelism=8"}));
}

TEST(Advise, NamesTheAxisThatHadBetterLieOnSlowLinks) {
  const Advice advice = advice_on(
      "model_name=llama2-7b compile_topology=v4-32 compile_topology_num_slices=4 dcn_tensor_parallelism=4 ici_fsdp_parallelism=16 "
      "per_device_batch_size=1");
  ASSERT_EQ(advice.findings.size(), 1u) << told(advice);
  EXPECT_EQ(advice.findings[0].what, "axis tensor lies across slices (dcn) and carries traffic in every layer; data had better lie there");
  EXPECT_THAT(advice.findings[0].cost, ::testing::ContainsRegex("a device sends .* over [a-z0-9-]+ in a step; kernels wait .* for the axis"));
}

// The advice plans the step as `compile` does, so the peak memory is the same.
TEST(Advise, CountsWhatThePlannerCounts) {
  const std::string request = "model_name=mixtral-8x7b compile_topology=v6e-8 ici_expert_parallelism=4";
  EXPECT_EQ(advice_on(request).forecast->memory.peak, plan_step(test::words_of(request)).step.forecast.memory.peak);
}

TEST(Advise, SaysNothingOfMemoryWhereNoMachineIsNamed) {
  EXPECT_TRUE(advice_on("model_name=llama2-7b").findings.empty()) << told(advice_on("model_name=llama2-7b"));
}

// In explicit mode operands must already have the same sharding; the op whose operands differ is named.
TEST(Advise, SaysWhyAStepCannotBePlanned) {
  const Advice advice = advice_on(
      "model_name=llama2-7b max_target_length=16 shard_mode=explicit compile_topology=cpu-3 ici_fsdp_parallelism=1 "
      "ici_autoregressive_parallelism=3 per_device_batch_size=1 "
      "logical_axis_rules=[[activation_vocab,[autoregressive]],[vocab,[]],[q_heads,[]],[kv_heads,[]],[heads,[]],[mlp,[]]]");
  ASSERT_FALSE(advice.findings.empty());
  EXPECT_EQ(advice.findings.front().check, Check::not_planned) << told(advice);
  EXPECT_FALSE(advice.forecast);
}

// State, activations and work that an axis repeats are counted separately: `data` repeats all state, `fsdp` none, and neither repeats work.
TEST(Repeated, CountsStateActivationsAndWorkOfEachAxis) {
  const std::vector<std::string> request = test::words_of(
      "model_name=llama2-7b compile_topology=v6e-8 ici_data_parallelism=2 ici_fsdp_parallelism=4 per_device_batch_size=1");
  const Planned planned = plan_step(request);
  const std::vector<Repeated> repeated = repeated_along({planned.session, planned.step});
  ASSERT_EQ(repeated.size(), 2u);
  std::int64_t state = 0;
  for (const auto* tensors : {&planned.session.layout.parameters, &planned.session.layout.moments}) {
    for (const sharding::LaidTensor& tensor : *tensors) state += bytes_per_device(tensor, planned.session.mesh);
  }
  EXPECT_EQ(repeated[0].state, state) << "data shards no parameter";
  EXPECT_EQ(repeated[1].state, 0) << "fsdp shards all of them";
  for (const Repeated& one : repeated) {
    EXPECT_LT(one.flops, 0.01) << "both carry the batch";
    EXPECT_LT(one.activations, 1 << 20) << "numbers of places";
  }
}

}  // namespace
}  // namespace moesh::advice
