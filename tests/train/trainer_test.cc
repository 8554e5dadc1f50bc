// A model in training: microbatches, determinism, the norms it tells, and where a number that is none came from.
#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include <gmock/gmock.h>

#include "tests/train/trainer_support.h"

namespace moesh::train {
namespace {

using test::kTinyMixtral;
using test::kTinyModel;
using test::numbers_of;
using test::Training;
using ::testing::HasSubstr;

using Numbers = std::vector<double>;

double relative_distance(const Numbers& a, const Numbers& b) {
  double distance = 0, size = 0;
  for (std::size_t i = 0; i < b.size(); ++i) {
    distance += (a[i] - b[i]) * (a[i] - b[i]);
    size += b[i] * b[i];
  }
  return std::sqrt(distance / std::max(size, 1e-30));
}

// Rows differ in how many positions count, so that a mean of means would be another number.
void vary_weights(const Batch& batch) {
  const run::Array& segments = batch.at("targets_segmentation");
  const std::int64_t length = segments.view.size(1);
  for (std::int64_t i = 0; i < segments.view.count(); ++i) {
    segments.as<std::int32_t>()[i] = i % length < 2 + i / length ? 1 : 0;
  }
}

TEST(Accumulation, GivesTheGradientOfTheWholeBatch) {
  for (const std::string& model :
       {kTinyModel, kTinyMixtral, kTinyMixtral + "sparse_matmul=false capacity_factor=1.0 "}) {
    Training whole(model + "per_device_batch_size=4");
    const Batch batch = whole.batch();
    vary_weights(batch);
    const Trainer::Gradients expected = whole.trainer.gradients(batch);
    for (const int steps : {2, 4}) {
      Training parts(model + "per_device_batch_size=" + std::to_string(4 / steps) +
                     " gradient_accumulation_steps=" + std::to_string(steps));
      const Trainer::Gradients made = parts.trainer.gradients(batch);
      EXPECT_EQ(made.metrics.total_weights, expected.metrics.total_weights);
      EXPECT_NEAR(made.metrics.loss, expected.metrics.loss, 1e-5);
      // Before the division by all positions, which is the update's.
      for (std::size_t i = 0; i < made.gradients.size(); ++i) {
        Numbers divided = numbers_of(made.gradients[i]);
        for (double& x : divided) x /= made.metrics.total_weights;
        EXPECT_LT(relative_distance(divided, numbers_of(expected.gradients[i])), 1e-5) << parts.paths()[i];
      }
    }
  }
}

// Microbatch m takes the rows m, m + 2, ... of the batch; the logits are those of the last one.
TEST(Accumulation, TakesEveryOtherRow) {
  Training whole(kTinyModel + "per_device_batch_size=4");
  Training parts(kTinyModel + "per_device_batch_size=2 gradient_accumulation_steps=2");
  const Batch batch = whole.batch();
  const Numbers all = numbers_of(whole.trainer.gradients(batch).logits);
  const Numbers last = numbers_of(parts.trainer.gradients(batch).logits);
  const std::size_t row = 7 * 23;
  ASSERT_EQ(all.size(), 4 * row);
  ASSERT_EQ(last.size(), 2 * row);
  for (std::size_t i = 0; i < row; ++i) {
    EXPECT_EQ(last[i], all[row + i]);
    EXPECT_EQ(last[row + i], all[3 * row + i]);
  }
}

TEST(Accumulation, TrainsAsTheWholeBatchDoes) {
  Training whole(kTinyModel + "per_device_batch_size=4 learning_rate=0.01");
  Training parts(kTinyModel + "per_device_batch_size=2 gradient_accumulation_steps=2 learning_rate=0.01");
  for (std::int64_t step = 0; step < 4; ++step) {
    const Batch batch = whole.batch(step);
    vary_weights(batch);
    const StepMetrics a = whole.trainer.step(batch);
    const StepMetrics b = parts.trainer.step(batch);
    EXPECT_NEAR(a.loss, b.loss, 1e-5);
    EXPECT_NEAR(a.raw_grad_norm, b.raw_grad_norm, 1e-5 * a.raw_grad_norm);
  }
  for (const std::string& path : whole.paths()) {
    EXPECT_LT(relative_distance(parts.parameter(path), whole.parameter(path)), 1e-4) << path;
  }
}

TEST(Trainer, LearnsAFixedBatch) {
  Training training(kTinyMixtral + "learning_rate=0.02 steps=40");
  const Batch batch = training.batch();
  const double first = training.trainer.step(batch).loss;
  double last = first;
  for (int step = 1; step < 40; ++step) last = training.trainer.step(batch).loss;
  EXPECT_GT(first, 3);
  EXPECT_LT(last, 1);
}

TEST(Trainer, GivesTheSameBitsOnAnyNumberOfThreads) {
  const auto trained = [](int threads) {
    Training training(kTinyMixtral + "learning_rate=0.01 load_balance_loss_weight=0.1", threads);
    Numbers losses;
    for (std::int64_t step = 0; step < 4; ++step) losses.push_back(training.trainer.step(training.batch(step)).loss);
    for (const std::string& path : training.paths()) {
      const Numbers values = training.parameter(path);
      losses.insert(losses.end(), values.begin(), values.end());
    }
    return losses;
  };
  const Numbers one = trained(1);
  EXPECT_EQ(one, trained(2));
  EXPECT_EQ(one, trained(3));
}

TEST(Trainer, ReportsTheBalanceLossBesideTheEntropy) {
  Training training(kTinyMixtral + "load_balance_loss_weight=0.5");
  const StepMetrics metrics = training.trainer.gradients(training.batch()).metrics;
  EXPECT_GT(metrics.balance_loss, 0.5);
  EXPECT_NEAR(metrics.loss, metrics.lm_loss + metrics.balance_loss, 1e-6);
  EXPECT_EQ(metrics.total_weights, 14);
}

TEST(Trainer, CountsPositionsWhoseTargetsCount) {
  Training training(kTinyModel);
  const Batch batch = training.batch();
  for (int i = 0; i < 5; ++i) batch.at("targets_segmentation").as<std::int32_t>()[i] = 0;
  EXPECT_EQ(training.trainer.gradients(batch).metrics.total_weights, 9);
}

TEST(Trainer, RefusesABatchOfAnotherSize) {
  Training training(kTinyModel);
  Training larger(kTinyModel + "per_device_batch_size=3");
  EXPECT_THAT(test::message_of([&] { training.trainer.gradients(larger.batch()); }),
              HasSubstr("int32 [3, 7] in a pass, the model takes int32 [2, 7]"));
}

TEST(NotFinite, IsFoundInTheParameterThatHoldsIt) {
  Training training(kTinyModel);
  Numbers scale(12, 1);
  scale[5] = std::numeric_limits<double>::infinity();
  training.trainer.set_parameter("decoder/decoder_norm/scale", training.array({12}, scale));
  EXPECT_EQ(training.trainer.first_not_finite(training.batch(), 0), "the parameter decoder/decoder_norm/scale");
}

// 1e30 * 1e30 is no float32.
TEST(NotFinite, IsFoundWhereItIsMadeWithinALayer) {
  Training training(kTinyModel);
  for (const char* name : {"decoder/layers/mlp/wi_0/kernel", "decoder/layers/mlp/wi_1/kernel"}) {
    const Shape& shape = training.trainer.parameter(name).view.shape;
    training.trainer.set_parameter(name,
                                   training.array(shape, Numbers(static_cast<std::size_t>(elements(shape)), 1e30)));
  }
  EXPECT_TRUE(std::isnan(training.trainer.gradients(training.batch()).metrics.loss));
  EXPECT_EQ(training.trainer.first_not_finite(training.batch(), 0), "made by binary at decoder/layers/mlp/multiply");
}

// Token 3 is a vector that the MLP maps to zeros, token 4 one that it maps beyond float32; each has a microbatch.
TEST(NotFinite, IsFoundInTheMicrobatchThatMakesIt) {
  Training training(kTinyModel + "per_device_batch_size=1 gradient_accumulation_steps=2");
  const auto set = [&](const std::string& path, const auto& value_at) {
    const Shape shape = training.trainer.parameter(path).view.shape;
    Numbers values(static_cast<std::size_t>(elements(shape)));
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = value_at(i);
    training.trainer.set_parameter(path, training.array(shape, values));
  };
  const auto zero = [](std::size_t) { return 0.0; };
  set("decoder/layers/self_attention/value/kernel", zero);
  set("decoder/layers/mlp/wo/kernel", zero);
  set("token_embedder/embedding", [](std::size_t i) { return i == 3 * 12 + 1 || i == 4 * 12 ? 1.0 : 0.0; });
  for (const char* name : {"wi_0", "wi_1"}) {
    set(std::string("decoder/layers/mlp/") + name + "/kernel", [](std::size_t i) { return i < 2 * 20 ? 1e30 : 0.0; });
  }
  for (const int bad_row : {0, 1}) {
    const Batch batch = training.batch();
    for (int i = 0; i < 14; ++i) batch.at("inputs").as<std::int32_t>()[i] = i / 7 == bad_row ? 4 : 3;
    EXPECT_TRUE(std::isnan(training.trainer.gradients(batch).metrics.loss));
    EXPECT_EQ(training.trainer.first_not_finite(batch, 0), "made by binary at decoder/layers/mlp/multiply") << bad_row;
  }
}

TEST(NotFinite, IsNotFoundWhereAllIsFinite) {
  Training training(kTinyModel);
  EXPECT_EQ(training.trainer.first_not_finite(training.batch(), 0), "not found when the step is run again");
}

const std::string kBalanced =
    kTinyModel +
    "model_name=deepseek3-tiny override_model_config=true base_num_decoder_layers=3 first_num_dense_layers=1 "
    "num_experts=4 num_experts_per_tok=2 n_routing_groups=-1 topk_routing_group=-1 base_moe_mlp_dim=20 "
    "adam_weight_decay=0 learning_rate=0 sparse_matmul=false ";
const std::string kBiasPath = "decoder/moe_layers/DeepSeekMoeBlock_0/MoeBlock_0/gate/bias";

// Experts with fewer tokens than the mean of their layer gain by the rate, those with more lose, those at it stay.
TEST(BiasBalance, MovesEachExpertsBiasTowardsTheMeanLoad) {
  Training training(kBalanced + "routed_bias_update_rate=0.25");
  const std::string& path = kBiasPath;
  ASSERT_EQ(training.trainer.parameter(path).view.shape, (Shape{4, 2}));
  training.trainer.set_parameter(path, training.array({4, 2}, {1, 2, 3, 4, 5, 6, 7, 8}));
  Trainer::Gradients given = training.trainer.gradients(training.batch());
  ASSERT_EQ(given.loads.size(), 1U);
  ASSERT_EQ(given.loads[0].view.shape, (Shape{2, 5}));
  double sum = 0;
  for (const double tokens : numbers_of(given.loads[0])) sum += tokens;
  EXPECT_EQ(sum, 2 * 2 * 14) << "layers times choices times tokens, none dropped";
  given.loads[0] = training.array({2, 5}, {10, 20, 30, 20, 100, 0, 0, 0, 8, 7});
  training.trainer.update(given);
  // The first layer's mean is 20, the second's 2, whatever was dropped; the layer is the second dim.
  EXPECT_EQ(training.parameter(path), (Numbers{1.25, 2.25, 3, 4.25, 4.75, 6.25, 7, 7.75}));
  // Each microbatch has its say: one in which the first expert has the least, and one in which it has the most.
  given.loads = {training.array({2, 5}, {1, 2, 3, 2, 0, 2, 2, 2, 2, 0}), training.array({2, 5}, {3, 1, 2, 2, 0, 0, 4, 2, 2, 0})};
  training.trainer.update(given);
  EXPECT_EQ(training.parameter(path), (Numbers{1.25, 2.5, 3.25, 4, 4.5, 6.25, 7, 7.75}));
}

// In bfloat16 a rate of 0.01 is 0.010009765625, and each step is rounded.
TEST(BiasBalance, IsInTheTypeOfTheBias) {
  Training training(kBalanced + "routed_bias_update_rate=0.01 weight_dtype=bfloat16");
  const auto bias = [&] {
    const run::Array made = training.trainer.parameter(kBiasPath);
    Numbers all;
    for (std::int64_t i = 0; i < made.view.count(); ++i) all.push_back(static_cast<float>(made.as<bfloat16>()[i]));
    return all;
  };
  ASSERT_EQ(bias(), Numbers(8, 0));
  Trainer::Gradients given = training.trainer.gradients(training.batch());
  given.loads[0] = training.array({2, 5}, {10, 20, 30, 20, 100, 0, 0, 0, 8, 7});
  training.trainer.update(given);
  const double rate = 0.010009765625;
  EXPECT_EQ(bias(), (Numbers{rate, rate, 0, rate, -rate, rate, 0, -rate}));
  for (int step = 1; step < 7; ++step) training.trainer.update(given);
  EXPECT_EQ(bias()[0], 0.0703125) << "seven times the rate is 0.070068359375, which bfloat16 lacks";
}

TEST(TrainedParameters, KeepTheMomentsThatTheLayoutShows) {
  for (const std::string optimizer : {"adamw", "adam_pax", "sgd", "muon"}) {
    SCOPED_TRACE(optimizer);
    const session::Session session =
        test::session("model_name=deepseek3-tiny compile_topology=cpu-1 opt_type=" + optimizer);
    std::multiset<std::string> kept;
    for (const Trained& trained : trained_parameters(session.graph, session.loaded.settings)) {
      if (trained.moments > 0) kept.insert("mu/" + trained.path);
      if (trained.moments > 1) kept.insert("nu/" + trained.path);
    }
    std::multiset<std::string> shown;
    for (const sharding::LaidTensor& moment : session.layout.moments) shown.insert(moment.path);
    EXPECT_EQ(shown, kept);
  }
}

}  // namespace
}  // namespace moesh::train
