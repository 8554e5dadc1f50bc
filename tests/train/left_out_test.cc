// Steps whose update is left out, wholly or but for the biases of routers; and how these biases move.
#include <cmath>
#include <limits>
#include <map>

#include "tests/train/update_support.h"

namespace moesh::train {
namespace {

using test::kConstantRate;
using test::Numbers;
using test::random_gradients;
using test::Updated;
using test::Updating;

const std::string kRouted =
    kConstantRate +
    "model_name=deepseek3-tiny override_model_config=true base_num_decoder_layers=3 first_num_dense_layers=1 num_experts=4 "
    "num_experts_per_tok=2 n_routing_groups=-1 topk_routing_group=-1 base_moe_mlp_dim=20 routed_bias_update_rate=0.25 ";
const std::string kBiasPath = "decoder/moe_layers/DeepSeekMoeBlock_0/MoeBlock_0/gate/bias";
const Numbers kUneven{10, 20, 30, 20, 100, 0, 0, 0, 8, 7};  // two layers; the fifth number of each counts dropped choices

// Whatever is not finite, no bit of the parameters, moments and router biases changes.
TEST(Update, OfAStepThatIsNotFiniteChangesNoBit) {
  for (const std::string optimizer :
       {"adamw", "adam_pax", "sgd", "muon", "adamw weight_dtype=bfloat16", "muon mu_dtype=bfloat16"}) {
    for (const bool is_loss : {true, false}) {
      Updating updating(kRouted + "opt_type=" + optimizer);
      std::vector<Numbers> gradients = random_gradients(updating, 1);
      EXPECT_TRUE(updating.update(gradients, 1, kUneven).is_applied);
      std::map<std::string, Numbers> before;
      for (const auto& [name, value] : updating.state) before[name] = updating.numbers(name);
      if (!is_loss) gradients[3][1] = std::numeric_limits<double>::infinity();
      const Updated made = updating.update(gradients, is_loss ? std::nan("") : 1, kUneven);
      EXPECT_FALSE(made.is_applied);
      EXPECT_TRUE(std::isfinite(made.param_norm)) << optimizer;
      for (const auto& [name, numbers] : before) EXPECT_EQ(updating.numbers(name), numbers) << optimizer << " " << name;
      // The next step starts from the state that was kept.
      EXPECT_TRUE(updating.update(random_gradients(updating, 50), 1, kUneven).is_applied);
      for (const auto& [name, numbers] : before) EXPECT_NE(updating.numbers(name), numbers) << optimizer << " " << name;
    }
  }
}

// A loss or norm above its limit leaves all to be as it was but routers' biases; one at its limit does not.
TEST(Update, OfASpikeOnlyMovesRoutersBiases) {
  for (const std::string optimizer : {"adamw", "adam_pax", "sgd", "muon", "adamw gradient_clipping_threshold=0"}) {
    for (const bool is_loss : {true, false}) {
      Updating updating(kRouted + "skip_step_on_spikes=true opt_type=" + optimizer);
      const std::vector<Numbers> gradients = random_gradients(updating, 1);
      const double norm = updating.update(gradients, 1, kUneven).grad_norm;
      std::map<std::string, Numbers> before;
      for (const auto& [name, value] : updating.state) before[name] = updating.numbers(name);
      const double below = 1 - 1e-6;
      updating.limits = is_loss ? SpikeLimits{.loss = 3 * below} : SpikeLimits{.grad_norm = norm * below};
      EXPECT_FALSE(updating.update(gradients, 3, kUneven).is_applied) << optimizer;
      for (const auto& [name, numbers] : before) EXPECT_EQ(updating.numbers(name) == numbers, name != kBiasPath) << optimizer << " " << name;
      EXPECT_FALSE(updating.update(gradients, std::nan(""), kUneven).is_applied) << optimizer;
      updating.limits = {3, norm};
      EXPECT_TRUE(updating.update(gradients, 3, kUneven).is_applied) << optimizer;
      updating.limits = {};
      EXPECT_TRUE(updating.update(random_gradients(updating, 50), 3, kUneven).is_applied) << optimizer;
      for (const auto& [name, numbers] : before) EXPECT_NE(updating.numbers(name), numbers) << optimizer << " " << name;
    }
  }
}

TEST(Update, IsMadeOfWhatIsNotFiniteWhereNobodyGuardsAgainstIt) {
  Updating updating(kConstantRate + "abort_on_nan_loss=false abort_on_inf_loss=false");
  EXPECT_TRUE(updating.update(random_gradients(updating, 1), std::nan("")).is_applied);
}

// The bias of an expert with fewer tokens than its layer's mean grows by the rate, with more tokens it shrinks by
// the rate, and at the mean it stays. This comes after the optimizer, which has zero gradients and no decay here.
TEST(BiasBalance, MovesEachExpertsBiasTowardsTheMeanLoad) {
  Updating updating(kRouted + "adam_weight_decay=0");
  std::vector<Numbers> gradients;
  for (const Trained& trained : updating.trained) gradients.emplace_back(static_cast<std::size_t>(elements(trained.shape)), 0.0);
  updating.state.at(kBiasPath) = updating.array({4, 2}, {1, 2, 3, 4, 5, 6, 7, 8});
  updating.update(gradients, 1, kUneven);
  EXPECT_EQ(updating.numbers(kBiasPath), (Numbers{1.25, 2.25, 3, 4.25, 4.75, 6.25, 7, 7.75}));
}

// Unrolled layers have one bias each, and read the load of the model's layers in order.
TEST(BiasBalance, FindsTheLoadOfEachLayer) {
  Updating updating(kRouted + "adam_weight_decay=0 scan_layers=false");
  std::vector<Numbers> gradients, biases;
  for (const Trained& trained : updating.trained) gradients.emplace_back(static_cast<std::size_t>(elements(trained.shape)), 0.0);
  updating.update(gradients, 1, kUneven);
  for (const Trained& trained : updating.trained) {
    if (trained.role == graph::Role::router_bias) biases.push_back(updating.numbers(trained.path));
  }
  EXPECT_EQ(biases, (std::vector<Numbers>{{0.25, 0, -0.25, 0}, {0.25, 0.25, 0.25, -0.25}}));
}

}  // namespace
}  // namespace moesh::train
