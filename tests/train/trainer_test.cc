// A model in training: microbatches, determinism, the norms that it reports, and where the first non-finite value comes from.
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

// The number of counted positions varies from row to row, so that a mean of means would give another result.
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
    Training whole(model + "per_device_batch_size=4", 2, test::kKeepAll);
    const Batch batch = whole.batch();
    vary_weights(batch);
    const StepResults expected = whole.trainer.run_step(batch);
    EXPECT_EQ(expected.gradient_factor, 1);
    for (const int steps : {2, 4}) {
      Training parts(model + "per_device_batch_size=" + std::to_string(4 / steps) +
                         " gradient_accumulation_steps=" + std::to_string(steps),
                     2, test::kKeepAll);
      const StepResults made = parts.trainer.run_step(batch);
      EXPECT_EQ(made.metrics.total_weights, expected.metrics.total_weights);
      EXPECT_NEAR(made.metrics.loss, expected.metrics.loss, 1e-5);
      EXPECT_NEAR(made.metrics.raw_grad_norm / expected.metrics.raw_grad_norm, 1, 1e-5);
      EXPECT_NEAR(made.gradient_factor * made.metrics.total_weights, 1, 1e-6);
      for (std::size_t i = 0; i < made.gradients.size(); ++i) {
        Numbers divided = numbers_of(made.gradients[i]);
        for (double& x : divided) x *= made.gradient_factor;
        EXPECT_LT(relative_distance(divided, numbers_of(expected.gradients[i])), 1e-5) << parts.paths()[i];
      }
    }
  }
}

// As in MaxText: of several microbatches, losses beside the entropy count only if some position does.
TEST(Accumulation, OfABatchWithoutTargetsHasNoLossAndNoGradients) {
  Training training(kTinyMixtral + "load_balance_loss_weight=0.5 gradient_accumulation_steps=2", 2, test::kKeepAll);
  const Batch batch = training.batch();
  const run::Array& segments = batch.at("targets_segmentation");
  std::fill_n(segments.as<std::int32_t>(), segments.view.count(), 0);
  const StepResults made = training.trainer.run_step(batch);
  EXPECT_GT(made.metrics.balance_loss, 0.5);
  EXPECT_EQ(made.metrics.loss, 0);
  EXPECT_EQ(made.metrics.raw_grad_norm, 0);
  EXPECT_EQ(made.gradient_factor, 0);
  Training one(kTinyMixtral + "load_balance_loss_weight=0.5 per_device_batch_size=4");
  EXPECT_GT(one.trainer.step(batch).loss, 0.5) << "of one microbatch they always count";
}

// Microbatch m takes the rows m, m + 2, ... of the batch; logits are returned in the order of the batch.
TEST(Accumulation, TakesEveryOtherRow) {
  Training whole(kTinyModel + "per_device_batch_size=4", 2, test::kKeepAll);
  Training parts(kTinyModel + "per_device_batch_size=2 gradient_accumulation_steps=2", 2, test::kKeepAll);
  const Batch batch = whole.batch();
  const Numbers all = numbers_of(whole.trainer.logits(whole.trainer.run_step(batch)));
  const StepResults made = parts.trainer.run_step(batch);
  ASSERT_EQ(made.logits.shape, (Shape{2, 2, 7, 23}));
  const Numbers by_microbatch = numbers_of(made.logits);
  const auto row = [](const Numbers& of, std::ptrdiff_t i) {
    return Numbers(of.begin() + i * 7 * 23, of.begin() + (i + 1) * 7 * 23);
  };
  EXPECT_EQ(row(by_microbatch, 0), row(all, 0));
  EXPECT_EQ(row(by_microbatch, 1), row(all, 2));
  EXPECT_EQ(row(by_microbatch, 2), row(all, 1));
  EXPECT_EQ(row(by_microbatch, 3), row(all, 3));
  EXPECT_EQ(numbers_of(parts.trainer.logits(made)), all);
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

// Layers with experts and an updated router bias, and one dense layer.
const std::string kSpreadOut =
    kTinyModel +
    "model_name=deepseek3-tiny override_model_config=true base_num_decoder_layers=5 first_num_dense_layers=1 num_experts=4 "
    "num_experts_per_tok=2 n_routing_groups=-1 topk_routing_group=-1 base_emb_dim=16 base_mlp_dim=16 base_moe_mlp_dim=16 "
    "base_num_query_heads=4 base_num_kv_heads=4 vocab_size=24 max_target_length=8 sparse_matmul=false learning_rate=0.01 "
    "warmup_steps_fraction=0 routed_bias_update_rate=0.01 ";

// Numbers of devices and their meshes. On two devices Muon takes two layers of attention at a time, on four all of them.
const std::pair<int, const char*> kMeshesOfDevices[] = {
    {2, "ici_fsdp_parallelism=2"},
    {4, "ici_fsdp_parallelism=2 ici_expert_parallelism=2"},
    {4, "ici_fsdp_parallelism=1 ici_tensor_parallelism=4"},
    {4, "ici_data_parallelism=2 ici_fsdp_parallelism=2 shard_optimizer_over_data=true"},
};

class Optimizer : public ::testing::TestWithParam<std::string> {};

// Eight rows in total, in one microbatch or in two.
TEST_P(Optimizer, TrainsOnEveryMeshAsOnOneDevice) {
  const auto trained = [](const std::string& request) {
    Training training(request);
    for (std::int64_t step = 0; step < 3; ++step) training.trainer.step(training.batch(step));
    std::vector<Numbers> all;
    for (const std::string& path : training.paths()) all.push_back(training.parameter(path));
    return all;
  };
  for (const int microbatches : {1, 2}) {
    const std::string request = kSpreadOut + fmt::format("gradient_accumulation_steps={} opt_type={} ", microbatches, GetParam());
    const auto expected = trained(request + fmt::format("per_device_batch_size={}", 8 / microbatches));
    for (const auto& [devices, mesh] : kMeshesOfDevices) {
      const auto made = trained(request + fmt::format("compile_topology=cpu-{} per_device_batch_size={} {}", devices,
                                                      8 / microbatches / devices, mesh));
      ASSERT_EQ(made.size(), expected.size());
      // Adam's first steps are the signs of gradients, which may differ where a gradient is near zero.
      for (std::size_t i = 0; i < made.size(); ++i) {
        EXPECT_LT(relative_distance(made[i], expected[i]), 1e-3) << microbatches << " " << mesh << " parameter " << i;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Of, Optimizer, ::testing::Values("adamw", "adam_pax", "sgd", "muon"));

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
  const StepMetrics metrics = training.trainer.step(training.batch());
  EXPECT_GT(metrics.balance_loss, 0.5);
  EXPECT_NEAR(metrics.loss, metrics.lm_loss + metrics.balance_loss, 1e-6);
  EXPECT_EQ(metrics.total_weights, 14);
}

TEST(Trainer, CountsPositionsWhoseTargetsCount) {
  Training training(kTinyModel);
  const Batch batch = training.batch();
  for (int i = 0; i < 5; ++i) batch.at("targets_segmentation").as<std::int32_t>()[i] = 0;
  EXPECT_EQ(training.trainer.step(batch).total_weights, 9);
}

TEST(Trainer, RefusesABatchOfAnotherSize) {
  Training training(kTinyModel);
  Training larger(kTinyModel + "per_device_batch_size=3");
  EXPECT_THAT(test::message_of([&] { training.trainer.step(larger.batch()); }),
              HasSubstr("int32 [3, 7] in a batch, the step takes int32 [2, 7]"));
  EXPECT_EQ(training.trainer.step(training.batch()).step, 0) << "nothing was lost";
}

// A token outside the vocabulary makes a step fail half-way.
TEST(Trainer, HasNoParametersOnceAStepFailedOnTheWay) {
  Training training(kTinyModel);
  const std::string path = "decoder/decoder_norm/scale";
  const Batch bad = training.batch();
  bad.at("inputs").as<std::int32_t>()[3] = 23;
  EXPECT_THAT(test::message_of([&] { training.trainer.step(bad); }), HasSubstr("outside the vocabulary of 23"));
  const std::string lost = ": the parameters and moments are lost: the step that was changing them did not end\n"
                           "  fix: set every parameter again, or start anew";
  EXPECT_EQ(test::message_of([&] { training.trainer.parameter(path); }), path + lost);
  EXPECT_THAT(test::message_of([&] { training.trainer.step(training.batch()); }), HasSubstr(lost));
  EXPECT_EQ(training.trainer.steps_done(), 0);
  for (const Trained& trained : training.trainer.parameters()) {
    const Numbers halves(static_cast<std::size_t>(elements(trained.shape)), 0.5);
    training.trainer.set_parameter(trained.path, training.array(trained.shape, halves));
  }
  EXPECT_EQ(training.trainer.step(training.batch()).step, 0);
}

TEST(NotFinite, IsFoundInTheParameterThatHoldsIt) {
  Training training(kTinyModel);
  Numbers scale(12, 1);
  scale[5] = std::numeric_limits<double>::infinity();
  training.trainer.set_parameter("decoder/decoder_norm/scale", training.array({12}, scale));
  EXPECT_EQ(training.trainer.first_not_finite(training.batch(), 0), "the parameter decoder/decoder_norm/scale");
}

// 1e30 * 1e30 overflows float32.
TEST(NotFinite, IsFoundWhereItIsMadeWithinALayer) {
  Training training(kTinyModel);
  for (const char* name : {"decoder/layers/mlp/wi_0/kernel", "decoder/layers/mlp/wi_1/kernel"}) {
    const Shape& shape = training.trainer.parameter(name).view.shape;
    training.trainer.set_parameter(name,
                                   training.array(shape, Numbers(static_cast<std::size_t>(elements(shape)), 1e30)));
  }
  EXPECT_TRUE(std::isnan(training.trainer.step(training.batch()).loss));
  EXPECT_EQ(training.trainer.first_not_finite(training.batch(), 0), "made by binary at decoder/layers/mlp/multiply");
}

// The MLP maps the embedding of token 3 to zeros and that of token 4 beyond float32; each token fills one microbatch.
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
    const StepMetrics metrics = training.trainer.step(batch);
    EXPECT_TRUE(std::isnan(metrics.loss));
    EXPECT_TRUE(metrics.is_left_out);
    EXPECT_EQ(training.trainer.first_not_finite(batch, 0), "made by binary at decoder/layers/mlp/multiply") << bad_row;
  }
}

// The loss and every gradient are finite, but not the sum of the gradients' squares.
TEST(NotFinite, IsFoundInTheNormOfGradients) {
  Training training(kTinyModel + "model_name=llama2-7b override_model_config=true");
  const std::string path = "decoder/decoder_norm/scale";
  training.trainer.set_parameter(path, training.array({12}, Numbers(12, 1e-25)));
  const std::string kernel = "decoder/logits_dense/kernel";
  Numbers uneven(12 * 23);
  for (std::size_t i = 0; i < uneven.size(); ++i) uneven[i] = 1e24 * static_cast<double>(i % 7);
  training.trainer.set_parameter(kernel, training.array({12, 23}, uneven));
  const StepMetrics metrics = training.trainer.step(training.batch());
  EXPECT_TRUE(std::isfinite(metrics.loss));
  EXPECT_TRUE(std::isinf(metrics.raw_grad_norm));
  EXPECT_TRUE(metrics.is_left_out);
  EXPECT_EQ(training.parameter(path), Numbers(12, static_cast<double>(1e-25f)));
  EXPECT_EQ(training.trainer.first_not_finite(training.batch(), 0), "made by sum_squares at gradients/squares");
}

// Searching for such a value changes nothing.
TEST(NotFinite, IsNotFoundWhereAllIsFinite) {
  for (const std::string optimizer : {"adamw", "muon"}) {
    Training training(kTinyModel + "opt_type=" + optimizer);
    std::map<std::string, Numbers> before;
    for (const Trained& trained : training.trainer.parameters()) before[trained.path] = training.parameter(trained.path);
    EXPECT_EQ(training.trainer.first_not_finite(training.batch(), 0), "not found when the step is run again");
    for (const auto& [path, numbers] : before) EXPECT_EQ(training.parameter(path), numbers) << optimizer << " " << path;
  }
}

// In each microbatch every choice of every token is counted.
TEST(ExpertLoad, IsOfEachMicrobatch) {
  Training training(kTinyMixtral + "per_device_batch_size=1 gradient_accumulation_steps=2 sparse_matmul=false");
  const StepResults made = training.trainer.run_step(training.batch());
  ASSERT_EQ(made.loads.size(), 2U);
  for (const run::Array& load : made.loads) {
    ASSERT_EQ(load.view.shape, (Shape{2, 6}));
    double sum = 0;
    for (const double tokens : numbers_of(load)) sum += tokens;
    EXPECT_EQ(sum, 2 * 2 * 7) << "layers times choices times tokens, none dropped";
  }
  double sum = 0;
  for (const double tokens : made.metrics.load.tokens) sum += tokens;
  EXPECT_EQ(sum, 2 * 2 * 14);
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
