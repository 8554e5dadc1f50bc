// Initial values of parameters: the requested spread, the same in every run and for any number of threads.
#include "train/initialize.h"

#include <algorithm>
#include <cmath>

#include "base/bfloat16.h"
#include "tests/train/trainer_support.h"

namespace moesh::train {
namespace {

using graph::Initializer;
using test::numbers_of;

std::vector<double> draw(const Initializer& of, const Shape& shape, std::int64_t seed = 0,
                         const std::string& path = "w", int threads = 2) {
  const auto pool = run::Pool::create();
  backend::Workers workers(threads);
  return numbers_of(initial_value(path, shape, DType::float32, of, seed, *pool, workers));
}

struct Moments {
  double mean = 0, deviation = 0, largest = 0;
};

Moments moments(const std::vector<double>& values) {
  Moments m;
  for (const double x : values) m.mean += x / static_cast<double>(values.size());
  for (const double x : values) m.deviation += (x - m.mean) * (x - m.mean) / static_cast<double>(values.size());
  m.deviation = std::sqrt(m.deviation);
  for (const double x : values) m.largest = std::max(m.largest, std::abs(x));
  return m;
}

constexpr std::int64_t kDraws = 200000;  // standard errors: 0.002 deviations for means, 0.0016 of itself for a deviation

TEST(Initialize, ZerosAndOnesAreThat) {
  const std::vector<double> zeros = draw({Initializer::Kind::zeros}, {3, 5});
  const std::vector<double> ones = draw({Initializer::Kind::ones}, {3, 5});
  EXPECT_TRUE(std::all_of(zeros.begin(), zeros.end(), [](double x) { return x == 0; }));
  EXPECT_TRUE(std::all_of(ones.begin(), ones.end(), [](double x) { return x == 1; }));
}

TEST(Initialize, NormalHasADeviationOfOneAndTails) {
  const Moments m = moments(draw({Initializer::Kind::normal}, {kDraws}));
  EXPECT_NEAR(m.mean, 0, 0.01);
  EXPECT_NEAR(m.deviation, 1, 0.01);
  EXPECT_GT(m.largest, 3.5);
  EXPECT_LT(m.largest, 7);
}

// The normal distribution is cut off at two of its deviations, and widened so that the result has the deviation 1 / sqrt(inputs).
TEST(Initialize, FanInHasTheInverseRootOfTheInputsAsDeviation) {
  for (const std::int64_t inputs : {1, 64, 1000}) {
    const double expected = 1 / std::sqrt(static_cast<double>(inputs));
    const Moments m = moments(draw({Initializer::Kind::fan_in, inputs}, {kDraws}));
    EXPECT_NEAR(m.mean / expected, 0, 0.01);
    EXPECT_NEAR(m.deviation / expected, 1, 0.01);
    EXPECT_LE(m.largest / expected, 2 / 0.8796 + 1e-3);
    EXPECT_GT(m.largest / expected, 2 / 0.8796 - 0.01);
  }
}

TEST(Initialize, FanInWithTailsIsAWholeNormalOfThatDeviation) {
  for (const std::int64_t inputs : {1, 64, 1000}) {
    const double expected = 2 / std::sqrt(static_cast<double>(inputs));
    const Moments m = moments(draw({Initializer::Kind::fan_in, inputs, 0.5, true}, {kDraws}));
    EXPECT_NEAR(m.mean / expected, 0, 0.01);
    EXPECT_NEAR(m.deviation / expected, 1, 0.01);
    EXPECT_GT(m.largest / expected, 3.5);
    EXPECT_LT(m.largest / expected, 7);
  }
}

// As the decay rates of linear attention start in the reference: the numbers themselves are uniform.
TEST(Initialize, LogarithmsAreOfNumbersUpTo16) {
  const std::vector<double> logarithms = draw({Initializer::Kind::log_uniform}, {kDraws});
  std::vector<double> numbers;
  for (const double logarithm : logarithms) numbers.push_back(std::exp(logarithm));
  const Moments m = moments(numbers);
  EXPECT_NEAR(m.mean, 8, 0.05);
  EXPECT_NEAR(m.deviation, 16 / std::sqrt(12.0), 0.05);
  EXPECT_LE(m.largest, 16 + 1e-5);
  EXPECT_GT(m.largest, 15.99);
  EXPECT_LT(*std::min_element(numbers.begin(), numbers.end()), 0.01);
  EXPECT_GT(*std::min_element(numbers.begin(), numbers.end()), 0.99e-9);
  EXPECT_EQ(logarithms, draw({Initializer::Kind::log_uniform}, {kDraws}, 0, "w", 3));
}

TEST(Initialize, TurnsCountAndBeginAgain) {
  EXPECT_EQ(draw({Initializer::Kind::turns, 3}, {2, 4}), (std::vector<double>{0, 1, 2, 0, 1, 2, 0, 1}));
}

TEST(Initialize, DividesFurtherWhereThatIsAsked) {
  const std::vector<double> whole = draw({Initializer::Kind::fan_in, 9}, {100});
  const std::vector<double> divided = draw({Initializer::Kind::fan_in, 9, 4}, {100});
  for (std::size_t i = 0; i < whole.size(); ++i) EXPECT_NEAR(divided[i], whole[i] / 4, 1e-7);
}

TEST(Initialize, IsTheSameForAnyNumberOfThreads) {
  const Initializer of{Initializer::Kind::fan_in, 5};
  const std::vector<double> one = draw(of, {kDraws}, 3, "w", 1);
  EXPECT_EQ(one, draw(of, {kDraws}, 3, "w", 2));
  EXPECT_EQ(one, draw(of, {kDraws}, 3, "w", 3));
}

TEST(Initialize, DependsOnTheSeedAndThePath) {
  const Initializer of{Initializer::Kind::normal};
  const std::vector<double> here = draw(of, {50}, 0, "decoder/a");
  EXPECT_EQ(here, draw(of, {50}, 0, "decoder/a"));
  EXPECT_NE(here, draw(of, {50}, 1, "decoder/a"));
  EXPECT_NE(here, draw(of, {50}, 0, "decoder/b"));
}

// An element depends only on its index, so two shapes that begin alike begin with the same numbers.
TEST(Initialize, OfAnElementDependsOnItsIndexAlone) {
  const Initializer of{Initializer::Kind::normal};
  const std::vector<double> few = draw(of, {3, 7});
  const std::vector<double> many = draw(of, {30, 7});
  EXPECT_TRUE(std::equal(few.begin(), few.end(), many.begin()));
}

TEST(Initialize, InBfloat16IsTheRoundedFloat32) {
  const auto pool = run::Pool::create();
  backend::Workers workers(1);
  const Initializer of{Initializer::Kind::fan_in, 3};
  const std::vector<double> wide = draw(of, {100});
  const run::Array narrow = initial_value("w", {100}, DType::bfloat16, of, 0, *pool, workers);
  for (std::size_t i = 0; i < wide.size(); ++i) {
    EXPECT_EQ(static_cast<float>(narrow.as<bfloat16>()[i]), static_cast<float>(bfloat16(static_cast<float>(wide[i]))));
  }
}

// The deviations of the reference's own initialisation: experts count their own dim among the inputs, and the
// query kernel is divided by the root of the head size if scores are not scaled. Kernels of attention are whole normals, others are cut.
TEST(Initialize, GivesAModelTheDeviationsOfTheReference) {
  const std::int64_t width = 48, experts = 6, hidden = 40, head = 24;
  const test::Training made(
      test::kTinyMixtral +
      "base_emb_dim=48 base_mlp_dim=40 base_moe_mlp_dim=40 num_experts=6 head_dim=24 vocab_size=300");
  const auto check = [&](const std::string& path, double expected) {
    const std::vector<double> values = made.parameter(path);
    const Moments m = moments(values);
    // Three standard errors of an estimated deviation.
    EXPECT_NEAR(m.deviation / expected, 1, 3 / std::sqrt(2.0 * static_cast<double>(values.size()))) << path;
    if (path.find("self_attention") != std::string::npos || path.find("embedder") != std::string::npos)
      EXPECT_GT(m.largest / expected, 3) << path;
    else
      EXPECT_LT(m.largest / expected, 2.4) << path;
  };
  const auto root = [](std::int64_t n) { return std::sqrt(static_cast<double>(n)); };
  check("token_embedder/embedding", 1);
  check("decoder/logits_dense/kernel", 1 / root(width));
  check("decoder/layers/MoeBlock_0/gate/kernel", 1 / root(width));
  check("decoder/layers/MoeBlock_0/wi_0", 1 / root(experts * hidden));
  check("decoder/layers/MoeBlock_0/wi_1", 1 / root(experts * hidden));
  check("decoder/layers/MoeBlock_0/wo", 1 / root(experts * width));
  check("decoder/layers/self_attention/query/kernel", 1 / root(width * head));
  check("decoder/layers/self_attention/key/kernel", 1 / root(width));
  check("decoder/layers/self_attention/value/kernel", 1 / root(width));
  check("decoder/layers/self_attention/out/kernel", 1 / root(2 * head));
  EXPECT_EQ(made.parameter("decoder/decoder_norm/scale"), std::vector<double>(48, 1));
}

// As in the reference, the scale applies to variances, and only to the kernels of MoE blocks.
TEST(Initialize, ScalesTheKernelsOfMoeBlocks) {
  const auto ratio = [](const std::string& request, const std::string& path) {
    const std::vector<double> plain = test::Training(request).parameter(path);
    const std::vector<double> scaled = test::Training(request + "dense_init_scale=4").parameter(path);
    return scaled.back() / plain.back();
  };
  for (const char* path : {"gate/kernel", "wi_0", "wi_1", "wo"}) {
    EXPECT_NEAR(ratio(test::kTinyMixtral, std::string("decoder/layers/MoeBlock_0/") + path), 2, 1e-6) << path;
  }
  for (const char* path : {"token_embedder/embedding", "decoder/logits_dense/kernel",
                           "decoder/layers/self_attention/query/kernel", "decoder/layers/self_attention/out/kernel"}) {
    EXPECT_EQ(ratio(test::kTinyMixtral, path), 1) << path;
  }
  EXPECT_EQ(ratio(test::kTinyModel, "decoder/layers/mlp/wo/kernel"), 1);
  const std::string deepseek =
      test::kTinyModel + "model_name=deepseek3-tiny override_model_config=true first_num_dense_layers=1 ";
  EXPECT_NEAR(ratio(deepseek, "decoder/moe_layers/DeepSeekMoeBlock_0/shared_experts/wo/kernel"), 2, 1e-6);
  EXPECT_EQ(ratio(deepseek, "decoder/dense_layers/mlp/wo/kernel"), 1);
}

}  // namespace
}  // namespace moesh::train
