// Values that wait for the backward pass in the host's memory: what remains on the device, and how long the transfers take.
#include "train/offload.h"

#include <gmock/gmock.h>

#include "advice/planned.h"
#include "tests/support.h"

namespace moesh::train {
namespace {

using advice::Planned;

constexpr std::int64_t kLayers = 32, kRow = 2048, kDims = 4096;
const std::string kModel = "model_name=llama2-7b compile_topology=h100-8 ici_fsdp_parallelism=8 per_device_batch_size=2 remat_policy=custom ";
constexpr std::int64_t kStack = kLayers * 2 * kRow * kDims * 2;  // bytes of one device's rows in all layers, in bfloat16

Planned planned(const std::string& more) { return advice::plan_step(test::words_of(kModel + more)); }

std::int64_t saved_bytes(const Planned& of) {
  return of.step.forecast.memory.of(forecast::Component::saved_activations);
}

TEST(Offload, LeavesTwoLayersOnTheDevice) {
  const Planned kept = planned("decoder_layer_input=device"), moved = planned("decoder_layer_input=offload");
  EXPECT_EQ(kept.step.forecast.host.bytes, 0);
  EXPECT_EQ(moved.step.forecast.host.bytes, kStack);
  EXPECT_EQ(saved_bytes(kept) - saved_bytes(moved), kStack / kLayers * (kLayers - 2));
  EXPECT_LT(moved.step.forecast.memory.peak, kept.step.forecast.memory.peak);
}

TEST(Offload, TakesWhatIsNamedAndNoMore) {
  EXPECT_EQ(planned("query_proj=offload mlpwo=device").step.forecast.host.bytes, kStack);
  EXPECT_EQ(planned("query_proj=offload key_proj=offload out_proj=offload").step.forecast.host.bytes, 3 * kStack);
  EXPECT_EQ(planned("query_proj=device").step.forecast.host.bytes, 0);
  const auto by_policy = [](const std::string& policy) {
    return advice::plan_step(test::words_of("model_name=llama2-7b compile_topology=h100-8 ici_fsdp_parallelism=8 remat_policy=" + policy))
        .step.forecast.host.bytes;
  };
  EXPECT_GT(by_policy("minimal_offloaded"), by_policy("qkv_proj_offloaded"));
  EXPECT_GT(by_policy("qkv_proj_offloaded"), 0);
  EXPECT_EQ(by_policy("minimal"), 0);
}

// Those of loops of one iteration stay on the device, as those of layers that are not scanned.
std::size_t attentions_in_loops(const graph::Graph& graph) {
  std::size_t count = 0;
  for (const graph::Node& node : graph.nodes) {
    const auto* of = std::get_if<graph::RepeatOf>(&node.attributes);
    if (of == nullptr || of->count() == 1) continue;
    for (const graph::Node& inner : of->body->nodes) count += inner.op == graph::Op::attention ? 1 : 0;
    count += attentions_in_loops(*of->body);
  }
  return count;
}

// Values may be saved before a constraint or a reshape, or resharded: the projections of all families are found, on any mesh.
TEST(OffloadSlow, TakesTheProjectionsOfAllFamilies) {
  for (const std::string model : {"llama2-7b", "mixtral-8x7b", "deepseek2-16b", "deepseek3-671b", "qwen3-30b-a3b", "gpt-oss-20b", "gpt3-6b", "gemma-7b",
                                  "gemma2-9b", "gemma3-27b", "gemma4-31b", "olmo3-7b", "llama4-17b-16e", "qwen2.5-7b", "envy-switch-base"}) {
    for (const std::string mesh : {"ici_fsdp_parallelism=64", "ici_fsdp_parallelism=32 ici_tensor_parallelism=2",
                                   "ici_fsdp_parallelism=32 ici_context_parallelism=2"}) {
      SCOPED_TRACE(model + " " + mesh);
      const Planned of = advice::plan_step(test::words_of("model_name=" + model + " compile_topology=h100-64 per_device_batch_size=1 " + mesh +
                                                          " remat_policy=qkv_proj_offloaded"));
      const std::size_t layers = attentions_in_loops(of.session.graph);
      ASSERT_GT(layers, 0u);
      const auto found =
          offloaded_of(of.session.graph, of.step.program, {of.session.layout, of.session.target}, of.session.loaded.settings);
      const std::size_t keys_as_values = model == "gemma4-31b" ? 1 : 0;  // in its layers with full attention
      EXPECT_EQ(found.size(), 3 * layers - keys_as_values);
      EXPECT_GT(of.step.forecast.host.bytes, 0);
    }
  }
}

TEST(Offload, SaysWhatStaysOnTheDevice) {
  testing::internal::CaptureStderr();
  const Planned unscanned = planned("scan_layers=false base_num_decoder_layers=2 override_model_config=true query_proj=offload");
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              testing::HasSubstr("query_proj: kept on the device; only scanned layers hand their values to the host"));
  EXPECT_EQ(unscanned.step.forecast.host.bytes, 0);
}

TEST(Offload, WaitsWhereAPassIsTooShort) {
  const Planned fast = planned("decoder_layer_input=offload");
  EXPECT_DOUBLE_EQ(fast.step.forecast.host.seconds.value(), static_cast<double>(kStack) / 64e9);
  EXPECT_EQ(fast.step.forecast.host.waits, 0);
  const double seconds = fast.step.forecast.seconds;
  EXPECT_NEAR(seconds, planned("decoder_layer_input=device").step.forecast.seconds, 1e-3 * seconds) << "beside all else";
  mesh::Topology slow = fast.session.target;
  slow.chip.host_bytes_per_second = 1e9;
  const forecast::Forecast made = forecast::forecast(
      fast.step.program.plan, fast.session.layout, slow, {1, 1},
      {offloaded_of(fast.session.graph, fast.step.program, {fast.session.layout, fast.session.target}, fast.session.loaded.settings)});
  const double ways = 2 * static_cast<double>(kStack) / 1e9;
  EXPECT_GT(made.host.waits, ways - seconds) << "in the update nothing moves";
  EXPECT_LT(made.host.waits, ways - 0.9 * seconds) << "both passes count";
  EXPECT_DOUBLE_EQ(made.seconds, seconds + made.host.waits);
}

// Recomputation belongs to the backward pass, so it gives values no time to leave the device during the forward pass.
TEST(Offload, CountsWhatIsMadeAgainAsTheBackwardPass) {
  const Planned of = planned("decoder_layer_input=offload");
  const auto waits_at = [&](double rate) {
    mesh::Topology slow = of.session.target;
    slow.chip.host_bytes_per_second = rate;
    return forecast::forecast(
               of.step.program.plan, of.session.layout, slow, {1, 1},
               {offloaded_of(of.session.graph, of.step.program, {of.session.layout, of.session.target}, of.session.loaded.settings)})
        .host.waits;
  };
  // If a step saves only each layer's input, the forward pass takes a quarter of the time of all passes.
  const double seconds = of.step.forecast.seconds, way = 0.4 * seconds;
  EXPECT_GT(waits_at(static_cast<double>(kStack) / way), 0.1 * seconds) << "the forward pass is too short";
  EXPECT_LT(waits_at(static_cast<double>(kStack) / way), 0.2 * seconds) << "the backward pass is not";
}

TEST(Offload, MovesAMicrobatchsValuesWithEach) {
  const Planned once = planned("decoder_layer_input=offload"), twice = planned("decoder_layer_input=offload gradient_accumulation_steps=2");
  EXPECT_EQ(twice.step.forecast.host.bytes, kStack);
  EXPECT_DOUBLE_EQ(twice.step.forecast.host.seconds.value(), 2 * once.step.forecast.host.seconds.value());
}

TEST(Offload, BringsMomentsForTheirUpdate) {
  const Planned kept = planned("optimizer_memory_host_offload=false"), moved = planned("optimizer_memory_host_offload=true");
  const auto state = [](const Planned& of) { return of.step.forecast.memory.of(forecast::Component::optimizer_state); };
  EXPECT_EQ(moved.step.forecast.host.bytes, state(kept));
  EXPECT_EQ(state(moved), 0) << "at the peak, which is in the backward pass";
  const std::int64_t saved = kept.step.forecast.memory.peak - moved.step.forecast.memory.peak;
  EXPECT_LE(saved, state(kept));
  EXPECT_GT(saved, state(kept) / 100 * 99);
  const double way = static_cast<double>(state(kept)) / 64e9;
  EXPECT_DOUBLE_EQ(moved.step.forecast.host.seconds.value(), way);
  EXPECT_GT(moved.step.forecast.host.waits, 0.8 * way) << "an update takes less than the ways to the host";
  EXPECT_LT(moved.step.forecast.host.waits, way);
}

TEST(Offload, IsNothingWhereTheMemoryIsTheHosts) {
  const Planned machine = advice::plan_step(test::words_of("model_name=deepseek3-tiny compile_topology=cpu-2 ici_fsdp_parallelism=2 remat_policy=custom "
                                                           "decoder_layer_input=offload optimizer_memory_host_offload=true"));
  EXPECT_EQ(machine.step.forecast.host.bytes, 0);
}

TEST(Offload, CostsNoTimeWhereTheHostsRateIsNotKnown) {
  const Planned unknown = advice::plan_step(test::words_of("model_name=llama2-7b compile_topology=v6e-8 ici_fsdp_parallelism=8 per_device_batch_size=2 "
                                                           "remat_policy=custom decoder_layer_input=offload"));
  EXPECT_EQ(unknown.step.forecast.host.bytes, kStack);
  EXPECT_EQ(unknown.step.forecast.host.seconds, std::nullopt);
}

}  // namespace
}  // namespace moesh::train
