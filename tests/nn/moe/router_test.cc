// Tests of how experts are chosen, and of the loss that balances their load.
#include "nn/moe/router.h"

#include "tests/graph/graph_support.h"
#include "tests/nn/nodes.h"
#include "tests/train/trainer_support.h"

namespace moesh::nn {
namespace {

using graph::test::Numbers;

constexpr std::int64_t kRows = 2, kLength = 30, kExperts = 16, kChoices = 4;

Numbers ids() {
  Numbers made = graph::test::draws({kRows, kLength, kChoices}, 3, kExperts);
  for (std::int64_t i = 0; i < made.count(); i += kChoices) {
    for (std::int64_t c = 1; c < kChoices; ++c) made.set(i + c, static_cast<double>((static_cast<std::int64_t>(made.at(i)) + 3 * c) % kExperts));
  }
  return made;
}

// Returns the loss for these scores, and its gradient with respect to them.
std::vector<Numbers> balance(const Numbers& scores) {
  const session::Session session = test::session(test::kTinyMixtral + "num_experts=16 num_experts_per_tok=4 load_balance_loss_weight=0.02");
  Builder builder;
  const Context context{session.loaded.settings, session.shape, kRows, kLength};
  const Tensor x = graph::test::input_like(builder, "scores", scores);
  const Tensor chosen = graph::test::input_like(builder, "ids", ids());
  const Tensor loss = balance_loss(builder, context, {x, x}, {x, chosen});
  builder.mark_result(loss);
  builder.mark_result(graph::gradients(loss, {x})[0]);
  return graph::test::run_graph(builder.graph(), {scores, ids()});
}

Numbers random_scores() { return graph::test::noise(DType::float32, {kRows, kLength, kExperts}, 1, -3, 3); }

// The loss by definition. For each row and expert, the share of tokens that chose the expert is multiplied by its mean probability; the
// mean of these products is multiplied by the loss weight and the number of experts squared.
double expected_loss(const Numbers& scores) {
  double loss = 0;
  for (std::int64_t b = 0; b < kRows; ++b) {
    std::vector<double> density(kExperts), probability(kExperts);
    for (std::int64_t i = 0; i < kLength * kChoices; ++i) density[static_cast<std::size_t>(ids().at(b * kLength * kChoices + i))] += 1.0 / kLength;
    for (std::int64_t s = 0; s < kLength; ++s) {
      const std::int64_t first = (b * kLength + s) * kExperts;
      double sum = 0;
      for (std::int64_t e = 0; e < kExperts; ++e) sum += std::exp(scores.at(first + e));
      for (std::int64_t e = 0; e < kExperts; ++e) probability[static_cast<std::size_t>(e)] += std::exp(scores.at(first + e)) / sum / kLength;
    }
    for (std::size_t e = 0; e < kExperts; ++e) loss += density[e] * probability[e];
  }
  return 0.02 * loss / (kRows * kExperts) * kExperts * kExperts;
}

TEST(BalanceLoss, IsTheMeanOfSharesTimesProbabilities) {
  // Sums of some thousand terms in float32.
  EXPECT_NEAR(balance(random_scores())[0].at(0) / expected_loss(random_scores()), 1, 1e-5);
}

TEST(BalanceLoss, GradientIsItsSlope) {
  constexpr double kStep = 1e-4;
  const Numbers gradient = balance(random_scores())[1];
  // In float64, so that the scores can be moved finely.
  Numbers scores = backend::test::converted(random_scores(), DType::float64);
  for (std::int64_t i = 0; i < kExperts * 3; ++i) {
    const double x = scores.at(i);
    scores.set(i, x + kStep);
    const double above = expected_loss(scores);
    scores.set(i, x - kStep);
    EXPECT_NEAR(gradient.at(i), (above - expected_loss(scores)) / (2 * kStep), 1e-8) << i;
    scores.set(i, x);
  }
}

// The shares sum to the number of choices per token, and all probabilities are equal.
TEST(BalanceLoss, OfEqualScoresIsTheChoicesOfATokenTimesTheWeight) {
  const Numbers made = balance(graph::test::filled(DType::float32, {kRows, kLength, kExperts}, 1))[0];
  EXPECT_FLOAT_EQ(static_cast<float>(made.at(0)), 0.02f * kChoices);
}

// As in the reference, experts that are drawn at random are drawn among all groups.
TEST(Routing, DrawsAtRandomAmongAllGroups) {
  const std::string request =
      "model_name=deepseek3-tiny override_model_config=true routing_group_score=best_two n_routing_groups=4 topk_routing_group=2 ";
  const auto routing = [&](const std::string& more) {
    return moesh::test::attributes_at<graph::TopKOf>(moesh::test::session(request + more).graph, "/route");
  };
  EXPECT_EQ(routing("").groups, 4);
  EXPECT_EQ(routing("use_random_routing=true").groups, 0);
}

}  // namespace
}  // namespace moesh::nn
