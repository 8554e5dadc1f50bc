// A checkpoint of any layout is taken to any other.
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include "store/checkpoint.h"
#include "store/layers.h"
#include "tests/config/small_models.h"
#include "tests/train/kept_run.h"
#include "tests/train/trainer_support.h"
#include "train/restore.h"

namespace moesh::train {
namespace {

using test::Kept;
using test::losses_in;
using test::Training;

// Layouts that shard parameters and moments in many different ways.
const std::vector<std::string> kLayouts{
    "compile_topology=cpu-8 ici_fsdp_parallelism=8",
    "compile_topology=cpu-8 ici_fsdp_parallelism=1 ici_expert_parallelism=8 use_ring_of_experts=true",
    "compile_topology=cpu-8 ici_fsdp_parallelism=1 ici_expert_parallelism=8",
    "compile_topology=cpu-8 ici_fsdp_parallelism=4 ici_expert_parallelism=2 custom_mesh_and_rule=ep-tp",
    "compile_topology=cpu-8 ici_fsdp_parallelism=4 ici_expert_parallelism=2 custom_mesh_and_rule=ep-as-cp",
    "compile_topology=cpu-8 ici_fsdp_parallelism=4 ici_expert_parallelism=2 custom_mesh_and_rule=shard-exp-on-fsdp",
    "compile_topology=cpu-8 ici_fsdp_parallelism=2 ici_tensor_parallelism=2 ici_context_parallelism=2",
    "compile_topology=cpu-1 ici_fsdp_parallelism=1 per_device_batch_size=8",
    "compile_topology=cpu-4 ici_fsdp_parallelism=4 per_device_batch_size=2 param_scan_axis=0",
    "compile_topology=cpu-1 ici_fsdp_parallelism=1 per_device_batch_size=8 scan_layers=false",
    "compile_topology=cpu-4 ici_fsdp_parallelism=4 per_device_batch_size=2 scan_layers=false owners=2",
};
const std::string kSpread =
    "decoder_block=mixtral dtype=float32 base_num_decoder_layers=4 base_emb_dim=16 base_num_query_heads=8 base_num_kv_heads=8 head_dim=8 "
    "base_mlp_dim=16 base_moe_mlp_dim=16 num_experts=8 num_experts_per_tok=2 vocab_size=64 per_device_batch_size=1 max_target_length=16 "
    "dataset_type=synthetic steps=20 sharding_tolerance=1.0 ";

// The tensors of a checkpoint layer by layer, under the names of unstacked layers.
std::map<std::string, std::vector<float>> layers_in(const std::string& path) {
  store::Checkpoint checkpoint(path);
  backend::Workers workers(1);
  std::map<std::string, std::vector<float>> all;
  std::map<std::string, store::LayerNames::Stack> stacks;
  for (const auto& [name, tensor] : checkpoint.index().tensors) {
    const int dim = tensor.layers_dim;
    stacks[name] = {dim, dim < 0 ? 1 : tensor.shape[static_cast<std::size_t>(dim)]};
  }
  const store::LayerNames names(stacks);
  for (const auto& [alone, layer] : names.all()) {
    Shape shape = checkpoint.index().tensors.at(layer.tensor).shape;
    if (layer.dim >= 0) shape.erase(shape.begin() + layer.dim);
    std::vector<float>& numbers = all[alone];
    numbers.resize(static_cast<std::size_t>(elements(shape)));
    const std::vector<store::Part> part{
        store::dense_part(store::whole_block(shape), DType::float32, reinterpret_cast<std::byte*>(numbers.data()))};
    checkpoint.read(layer.tensor, store::as_layer(part, layer), workers);
  }
  return all;
}

std::vector<float> dense(const std::vector<store::Part>& parts, const Shape& shape) {
  std::vector<float> numbers(static_cast<std::size_t>(elements(shape)));
  const store::Part to = store::dense_part(store::whole_block(shape), DType::float32, reinterpret_cast<std::byte*>(numbers.data()));
  for (const store::Part& part : parts) store::copy_shared(part, to);
  return numbers;
}

// The same for the tensors of a trainer.
std::map<std::string, std::vector<float>> layers_of(Trainer& trainer) {
  std::map<std::string, store::LayerNames::Stack> stacks;
  for (const Trained& trained : trainer.parameters()) {
    const int dim = trained.layers_dim;
    for (const std::string& name : {trained.path, trained.mu(), trained.nu()}) {
      if ((name == trained.mu() && trained.moments < 1) || (name == trained.nu() && trained.moments < 2)) continue;
      stacks[name] = {dim, dim < 0 ? 1 : trained.shape[static_cast<std::size_t>(dim)]};
    }
  }
  const store::LayerNames names(stacks);
  std::map<std::string, std::vector<float>> all;
  for (const auto& [alone, layer] : names.all()) {
    const std::vector<store::Part> parts = trainer.state_parts(layer.tensor);
    Shape shape = trainer.state(layer.tensor).seen_shape();
    if (layer.dim >= 0) shape.erase(shape.begin() + layer.dim);
    all[alone] = dense(store::of_layer(parts, layer), shape);
  }
  return all;
}

class AnyToAnySlow : public ::testing::TestWithParam<std::tuple<std::size_t, std::string>> {};

// Restored on any layout, a checkpoint gives the same numbers, and the losses continue as in the run that saved it.
TEST_P(AnyToAnySlow, CheckpointsAreTakenToTheSameNumbers) {
  const auto& [index, optimizer] = GetParam();
  if (optimizer == "muon" && kLayouts[index].ends_with("param_scan_axis=0")) return;
  const std::string model = kSpread + "opt_type=" + optimizer + " ";
  const Kept source(model + kLayouts[index] + " ");
  ASSERT_EQ(source.run("steps=2").code, 0);
  const auto expected = layers_in(source.at(1));
  ASSERT_EQ(source.run("steps=7").code, 0);
  const std::vector<double> losses = losses_in(source.metrics());
  for (const std::string& layout : kLayouts) {
    if (optimizer == "muon" && layout.ends_with("param_scan_axis=0")) continue;  // which is refused
    const Kept target(model + layout + " ");
    ASSERT_EQ(target.run("steps=7 load_full_state_path=" + source.at(1)).code, 0) << layout;
    const std::vector<double> made = losses_in(target.metrics());
    ASSERT_EQ(made.size(), 5u);
    for (std::size_t i = 0; i < made.size(); ++i) EXPECT_NEAR(made[i], losses[i + 2], 2e-5 * losses[i + 2]) << layout << ", step " << i + 2;
    Training restored(model + layout);
    store::Checkpoint checkpoint(source.at(1));
    const std::vector<Target> targets = targets_in(restored.trainer, Restored::all);
    check_fit(targets, checkpoint);
    restore(targets, checkpoint, restored.workers);
    EXPECT_EQ(layers_of(restored.trainer), expected) << layout;
  }
}

// Two layers that are never stacked, and a cycle of two layers that may be.
TEST(Cycles, OfDeepseek4AreTakenFromStacksAndToThem) {
  const std::string model = test::kDeepseek4 +
                            "dtype=float32 first_num_hash_layers=2 compress_ratios=[0,4,128,4] max_target_length=128 "
                            "per_device_batch_size=2 ";
  for (const bool is_stacked : {false, true}) {
    const std::string from = fmt::format("scan_layers={} ", is_stacked), to = fmt::format("scan_layers={} ", !is_stacked);
    const Kept source(model + from);
    ASSERT_EQ(source.run("steps=2").code, 0);
    const auto expected = layers_in(source.at(1));
    Training restored(model + to + "steps=5 learning_rate_schedule_steps=8");
    store::Checkpoint checkpoint(source.at(1));
    const std::vector<Target> targets = targets_in(restored.trainer, Restored::all);
    check_fit(targets, checkpoint);
    restore(targets, checkpoint, restored.workers);
    EXPECT_EQ(layers_of(restored.trainer), expected) << to;
    const test::Outcome resumed = source.run("steps=4 " + to);
    ASSERT_EQ(resumed.code, 0) << resumed.err;
    const Kept whole(model + from);
    ASSERT_EQ(whole.run("steps=4").code, 0);
    const std::vector<double> straight = losses_in(whole.metrics()), made = losses_in(source.metrics());
    ASSERT_EQ(made.size(), straight.size());
    for (std::size_t i = 0; i < made.size(); ++i) EXPECT_NEAR(made[i], straight[i], 1e-4 * straight[i]) << to << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Layout, AnyToAnySlow,
                         ::testing::Combine(::testing::Range<std::size_t>(0, kLayouts.size()), ::testing::Values("adamw", "muon")));

}  // namespace
}  // namespace moesh::train
