// Random experts: the draws depend on the step, the layer and the token's place in the global batch, and on nothing else.
#include <cmath>

#include "tests/train/trainer_support.h"

namespace moesh::train {
namespace {

using test::kTinyMixtral;
using test::Training;
using Loads = std::vector<std::vector<double>>;

const std::string kDrawn = kTinyMixtral +
                           "compile_topology=cpu-8 ici_fsdp_parallelism=1 max_target_length=16 num_experts=4 "
                           "vocab_size=24 base_num_kv_heads=2 base_emb_dim=16 base_mlp_dim=16 base_moe_mlp_dim=16 "
                           "router_skew=1 learning_rate=0 ";

// Eight rows on the eight devices of a mesh, or on one device if no mesh is given.
std::string on(const std::string& mesh) {
  return mesh.empty() ? kDrawn + "compile_topology=cpu-1 per_device_batch_size=8 "
                      : kDrawn + "per_device_batch_size=1 " + mesh + " ";
}

struct Drawn {
  double loss = 0;
  Loads tokens;  // per microbatch, the loads of the experts of all layers
};

Drawn drawn(Training& training) {
  const StepResults made = training.trainer.run_step(training.batch());
  Drawn all{made.metrics.loss, {}};
  for (const run::Array& load : made.loads) all.tokens.push_back(test::numbers_of(load));
  return all;
}

Drawn drawn(const std::string& request) {
  Training training(request);
  return drawn(training);
}

// The loss shows which token goes where, the counts show how many tokens each expert gets.
void expect_same(const Drawn& made, const Drawn& expected, const std::string& what) {
  EXPECT_EQ(made.tokens, expected.tokens) << what;
  EXPECT_NEAR(made.loss / expected.loss, 1, 1e-6) << what;
}

constexpr const char* kRoutedMeshes[] = {
    "ici_fsdp_parallelism=8",
    "ici_data_parallelism=2 ici_fsdp_parallelism=4",
    "ici_fsdp_parallelism=2 ici_expert_parallelism=4",
    "ici_expert_parallelism=4 ici_tensor_parallelism=2",
    "ici_fsdp_parallelism=4 ici_context_parallelism=2",
    "ici_fsdp_parallelism=2 ici_context_parallelism=4 context_parallel_load_balance=false",
    "ici_fsdp_parallelism=2 ici_context_parallelism=2 ici_expert_parallelism=2 custom_mesh_and_rule=cp-as-ep",
    "ici_fsdp_parallelism=4 ici_expert_parallelism=2 custom_mesh_and_rule=ep-as-cp",
    "ici_fsdp_parallelism=4 ici_expert_parallelism=2 custom_mesh_and_rule=ep-tp",
};

TEST(RandomRouting, IsTheSameOnEveryMeshAndForEveryStrategy) {
  for (const std::string strategy : {"sparse_matmul=true use_ring_of_experts=true",
                                     "sparse_matmul=true use_ring_of_experts=false", "sparse_matmul=false"}) {
    const Drawn expected = drawn(on("") + strategy);
    for (const char* mesh : kRoutedMeshes) expect_same(drawn(on(mesh) + strategy), expected, mesh + (" " + strategy));
  }
}

TEST(RandomRouting, IsTheSameWhereTokensAreDroppedByTheirPlace) {
  const std::string strategy = "sparse_matmul=false capacity_factor=1";
  const Drawn expected = drawn(on("") + strategy);
  for (const char* mesh : kRoutedMeshes) expect_same(drawn(on(mesh) + strategy), expected, mesh);
}

TEST(RandomRouting, IsTheSameForLayersWrittenOneByOne) {
  const std::string gpt_oss =
      kDrawn + "model_name=gpt-oss-20b base_num_decoder_layers=4 per_device_batch_size=1 ici_fsdp_parallelism=8 ";
  const std::string deepseek = kDrawn +
                               "model_name=deepseek3-tiny base_num_decoder_layers=4 first_num_dense_layers=1 "
                               "per_device_batch_size=1 ici_fsdp_parallelism=8 ";
  for (const std::string& model : {on("ici_fsdp_parallelism=8"), gpt_oss, deepseek}) {
    const Drawn scanned = drawn(model + "scan_layers=true");
    EXPECT_EQ(drawn(model + "scan_layers=false").tokens.size(), scanned.tokens.size());
    // The loads are in the order of the layers, though a cycle of two is scanned as two stacks.
    EXPECT_EQ(drawn(model + "scan_layers=false").tokens, scanned.tokens) << model;
  }
}

Loads loads_by_layer(const std::vector<double>& loads, std::size_t experts = 4) {
  Loads layers;
  for (std::size_t i = 0; i < loads.size(); i += experts + 1) {
    layers.emplace_back(loads.begin() + static_cast<std::ptrdiff_t>(i),
                        loads.begin() + static_cast<std::ptrdiff_t>(i + experts));
  }
  return layers;
}

TEST(RandomRouting, DiffersBetweenLayersAndSteps) {
  Training training(on("ici_fsdp_parallelism=8"));
  const Drawn first = drawn(training);
  const Drawn second = drawn(training);
  Loads all = loads_by_layer(first.tokens[0]);
  for (const std::vector<double>& layer : loads_by_layer(second.tokens[0])) all.push_back(layer);
  ASSERT_EQ(all.size(), 4u);
  for (std::size_t i = 0; i < all.size(); ++i) {
    for (std::size_t k = 0; k < i; ++k) EXPECT_NE(all[i], all[k]) << "layers and steps " << i << " and " << k;
  }
}

// Each microbatch has other rows and so other draws; together they draw the same as a single pass over all rows.
TEST(RandomRouting, DiffersBetweenMicrobatchesAndDoesNotDependOnTheirNumber) {
  const Drawn whole = drawn(on("ici_fsdp_parallelism=8") + "per_device_batch_size=2");
  const Drawn cut = drawn(on("ici_fsdp_parallelism=8") + "per_device_batch_size=1 gradient_accumulation_steps=2");
  ASSERT_EQ(cut.tokens.size(), 2u);
  EXPECT_NE(cut.tokens[0], cut.tokens[1]);
  std::vector<double> sum = cut.tokens[0];
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += cut.tokens[1][i];
  EXPECT_EQ(sum, whole.tokens[0]);
  EXPECT_NEAR(cut.loss / whole.loss, 1, 1e-6);
}

TEST(RandomRouting, FollowsTheSeedAndStartsAgainFromIt) {
  EXPECT_EQ(drawn(on("ici_fsdp_parallelism=8")).tokens, drawn(on("ici_fsdp_parallelism=8")).tokens);
  EXPECT_NE(drawn(on("ici_fsdp_parallelism=8")).tokens,
            drawn(on("ici_fsdp_parallelism=8") + "init_weights_seed=5").tokens);
}

// Every expert is equally likely: 8 rows of 512 tokens with two choices each over 8 experts. The tolerance is five standard deviations.
TEST(RandomRouting, WithoutSkewIsEven) {
  const Drawn made = drawn(on("ici_fsdp_parallelism=8") +
                           "router_skew=-1 use_random_routing=true max_target_length=512 num_experts=8");
  const double each = 8 * 512 * 2 / 8.0;
  for (const std::vector<double>& layer : loads_by_layer(made.tokens[0], 8)) {
    for (const double tokens : layer) EXPECT_NEAR(tokens, each, 5 * std::sqrt(each));
  }
}

}  // namespace
}  // namespace moesh::train
