// A step of each optimizer against the formulas it is defined by, written out in float64.
#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <numeric>
#include <random>

#include "tests/train/trainer_support.h"

namespace moesh::train {
namespace {

using test::kTinyModel;
using test::Training;

using Numbers = std::vector<double>;

constexpr double kRate = 0.03;
const std::string kConstantRate =
    kTinyModel + "learning_rate=0.03 warmup_steps_fraction=0 learning_rate_final_fraction=1 ";

Numbers random_numbers(std::int64_t count, unsigned seed) {
  std::mt19937 random(seed);
  Numbers made;
  for (std::int64_t i = 0; i < count; ++i) {
    made.push_back(static_cast<double>(static_cast<float>(static_cast<double>(random()) / 2147483648.0 - 1)));
  }
  return made;
}

// A gradient for every parameter, not the model's.
std::vector<Numbers> random_gradients(const Training& training, unsigned seed) {
  std::vector<Numbers> all;
  for (const Trained& trained : training.trainer.parameters()) {
    all.push_back(random_numbers(elements(trained.shape), seed + static_cast<unsigned>(all.size())));
  }
  return all;
}

StepMetrics update(Training& training, const std::vector<Numbers>& gradients, double total_weights = 1) {
  Trainer::Gradients given;
  given.metrics.total_weights = total_weights;
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    given.gradients.push_back(training.placed(training.trainer.parameters()[i].shape, gradients[i]));
  }
  return training.trainer.update(given);
}

double norm(const std::vector<Numbers>& all) {
  double squares = 0;
  for (const Numbers& numbers : all)
    squares = std::inner_product(numbers.begin(), numbers.end(), numbers.begin(), squares);
  return std::sqrt(squares);
}

std::vector<Numbers> parameters_of(const Training& training) {
  std::vector<Numbers> all;
  for (const std::string& path : training.paths()) all.push_back(training.parameter(path));
  return all;
}

// A parameter with the moments that an optimizer keeps.
struct State {
  Numbers parameter, mu, nu;
};

// One step of one parameter; `step` counts from 1.
using Rule = std::function<void(const Trained&, State&, const Numbers& gradient, double step)>;

// Holds three steps of the trainer to the rule. Parameters are near 1, so float32 rounds them by 1e-7 a step.
void hold_to(const Rule& rule, const std::string& request, double tolerance = 5e-7) {
  Training training(kConstantRate + "gradient_clipping_threshold=0 " + request);
  std::vector<State> states;
  for (const Numbers& parameter : parameters_of(training)) {
    states.push_back({parameter, Numbers(parameter.size(), 0), Numbers(parameter.size(), 0)});
  }
  for (unsigned step = 1; step <= 3; ++step) {
    const std::vector<Numbers> gradients = random_gradients(training, 100 * step);
    update(training, gradients);
    for (std::size_t i = 0; i < states.size(); ++i) {
      const Trained& trained = training.trainer.parameters()[i];
      rule(trained, states[i], gradients[i], step);
      const Numbers made = training.parameter(trained.path);
      double worst = 0;
      for (std::size_t k = 0; k < made.size(); ++k) worst = std::max(worst, std::abs(made[k] - states[i].parameter[k]));
      EXPECT_LT(worst, tolerance) << trained.path << " after step " << step;
    }
  }
}

struct AdamNumbers {
  double b1 = 0.9, b2 = 0.95, epsilon = 1e-8, epsilon_root = 0, decay = 0.1;
};

Rule adamw(const AdamNumbers& of) {
  return [of](const Trained&, State& s, const Numbers& g, double step) {
    for (std::size_t i = 0; i < g.size(); ++i) {
      s.mu[i] = of.b1 * s.mu[i] + (1 - of.b1) * g[i];
      s.nu[i] = of.b2 * s.nu[i] + (1 - of.b2) * g[i] * g[i];
      const double mu = s.mu[i] / (1 - std::pow(of.b1, step));
      const double nu = s.nu[i] / (1 - std::pow(of.b2, step));
      s.parameter[i] -= kRate * (mu / (std::sqrt(nu + of.epsilon_root) + of.epsilon) + of.decay * s.parameter[i]);
    }
  };
}

TEST(AdamW, IsItsFormula) {
  hold_to(adamw({}), "opt_type=adamw");
  hold_to(adamw({0.7, 0.8, 0.3, 0.01, 0.5}),
          "opt_type=adamw adam_b1=0.7 adam_b2=0.8 adam_eps=0.3 adam_eps_root=0.01 adam_weight_decay=0.5");
}

// Pax folds the bias correction into the decay rates.
Rule adam_pax(const AdamNumbers& of) {
  return [of](const Trained&, State& s, const Numbers& g, double step) {
    const double b1 = of.b1 * (1 - std::pow(of.b1, step - 1)) / (1 - std::pow(of.b1, step));
    const double b2 = of.b2 * (1 - std::pow(of.b2, step - 1)) / (1 - std::pow(of.b2, step));
    for (std::size_t i = 0; i < g.size(); ++i) {
      s.mu[i] = b1 * s.mu[i] + (1 - b1) * g[i];
      s.nu[i] = b2 * s.nu[i] + (1 - b2) * g[i] * g[i];
      s.parameter[i] -= kRate * (s.mu[i] / (std::sqrt(s.nu[i]) + of.epsilon) + of.decay * s.parameter[i]);
    }
  };
}

TEST(AdamPax, IsItsFormula) { hold_to(adam_pax({}), "opt_type=adam_pax"); }

TEST(AdamWMask, NamesWhatIsNotDecayed) {
  const auto masked = [](const Rule& plain, const Rule& decaying) -> Rule {
    return [=](const Trained& of, State& state, const Numbers& gradient, double step) {
      const bool is_named = of.path.find("norm") != std::string::npos || of.path.ends_with("/wo/kernel");
      (is_named ? plain : decaying)(of, state, gradient, step);
    };
  };
  AdamNumbers without_decay;
  without_decay.decay = 0;
  hold_to(masked(adamw(without_decay), adamw({})), "opt_type=adamw adamw_mask=[norm,mlp/wo/k.*l]");
  hold_to(masked(adam_pax(without_decay), adam_pax({})), "opt_type=adam_pax adamw_mask=[norm,mlp/wo/k.*l]");
  EXPECT_EQ(test::message_of([] { Training(kConstantRate + "adamw_mask=[(]"); }),
            "the command line: adamw_mask holds '(', a regular expression was expected\n"
            "  fix: adamw_mask=[bias, '.*norm.*']");
}

TEST(Sgd, IsItsFormula) {
  hold_to(
      [](const Trained&, State& s, const Numbers& g, double) {
        for (std::size_t i = 0; i < g.size(); ++i) s.parameter[i] -= kRate * g[i];
      },
      "opt_type=sgd");
}

// Which dims of a stacked parameter are the layers, the matrix's rows and its columns.
struct Matrix {
  std::vector<int> layers, rows, columns;
};
const std::map<std::string, Matrix> kMatrices{
    {"decoder/layers/self_attention/query/kernel", {{1}, {0}, {2, 3}}},
    {"decoder/layers/self_attention/key/kernel", {{1}, {0}, {2, 3}}},
    {"decoder/layers/self_attention/value/kernel", {{1}, {0}, {2, 3}}},
    {"decoder/layers/self_attention/out/kernel", {{1}, {0, 2}, {3}}},
    {"decoder/layers/mlp/wi_0/kernel", {{1}, {0}, {2}}},
    {"decoder/layers/mlp/wi_1/kernel", {{1}, {0}, {2}}},
    {"decoder/layers/mlp/wo/kernel", {{1}, {0}, {2}}},
};

struct Dense {
  std::size_t rows = 0, columns = 0;
  Numbers values;

  double& at(std::size_t i, std::size_t k) { return values[i * columns + k]; }
  double at(std::size_t i, std::size_t k) const { return values[i * columns + k]; }
};

Dense transposed(const Dense& a) {
  Dense made{a.columns, a.rows, Numbers(a.values.size())};
  for (std::size_t i = 0; i < a.rows; ++i) {
    for (std::size_t k = 0; k < a.columns; ++k) made.at(k, i) = a.at(i, k);
  }
  return made;
}

Dense product(const Dense& a, const Dense& b) {
  Dense made{a.rows, b.columns, Numbers(a.rows * b.columns, 0)};
  for (std::size_t i = 0; i < a.rows; ++i) {
    for (std::size_t j = 0; j < a.columns; ++j) {
      for (std::size_t k = 0; k < b.columns; ++k) made.at(i, k) += a.at(i, j) * b.at(j, k);
    }
  }
  return made;
}

Dense combined(double s, const Dense& a, double t, const Dense& b) {
  Dense made = a;
  for (std::size_t i = 0; i < a.values.size(); ++i) made.values[i] = s * a.values[i] + t * b.values[i];
  return made;
}

Dense orthogonalised(Dense x) {
  if (x.rows > x.columns) return transposed(orthogonalised(transposed(x)));
  const double size = std::sqrt(std::inner_product(x.values.begin(), x.values.end(), x.values.begin(), 0.0));
  for (double& v : x.values) v /= size + 1e-8;
  for (int step = 0; step < 5; ++step) {
    const Dense a = product(x, transposed(x));
    const Dense b = combined(-4.7750, a, 2.0315, product(a, a));
    x = combined(3.4445, x, 1, product(b, x));
  }
  return x;
}

// The offset of every index over the given dims, the last dim fastest.
std::vector<std::size_t> offsets(const Shape& shape, const std::vector<int>& dims) {
  std::vector<std::size_t> strides(shape.size(), 1);
  for (std::size_t i = shape.size() - 1; i-- > 0;) strides[i] = strides[i + 1] * static_cast<std::size_t>(shape[i + 1]);
  std::vector<std::size_t> all{0};
  for (const int dim : dims) {
    std::vector<std::size_t> next;
    for (const std::size_t offset : all) {
      for (std::int64_t i = 0; i < shape[static_cast<std::size_t>(dim)]; ++i) {
        next.push_back(offset + static_cast<std::size_t>(i) * strides[static_cast<std::size_t>(dim)]);
      }
    }
    all = std::move(next);
  }
  return all;
}

// Each layer's matrix made orthogonal, times `scale(rows, columns)`.
Numbers muon_direction_of(const Numbers& momentum, const Shape& shape, const Matrix& of,
                          const std::function<double(double, double)>& scale) {
  Numbers made(momentum.size());
  const auto rows = offsets(shape, of.rows);
  const auto columns = offsets(shape, of.columns);
  for (const std::size_t layer : offsets(shape, of.layers)) {
    Dense x{rows.size(), columns.size(), {}};
    for (const std::size_t row : rows) {
      for (const std::size_t column : columns) x.values.push_back(momentum[layer + row + column]);
    }
    x = orthogonalised(x);
    const double factor = scale(static_cast<double>(x.rows), static_cast<double>(x.columns));
    for (std::size_t i = 0; i < rows.size(); ++i) {
      for (std::size_t k = 0; k < columns.size(); ++k) made[layer + rows[i] + columns[k]] = factor * x.at(i, k);
    }
  }
  return made;
}

// Matrices by Muon, everything else by Adam that looks ahead.
Rule muon(double beta, double decay, const std::function<double(double, double)>& scale) {
  return [=](const Trained& trained, State& s, const Numbers& g, double step) {
    const auto matrix = kMatrices.find(trained.path);
    const bool is_matrix = matrix != kMatrices.end();
    const double b1 = is_matrix ? beta : 0.9;
    const double b2 = 0.95;
    Numbers ahead(g.size());
    for (std::size_t i = 0; i < g.size(); ++i) {
      s.mu[i] = b1 * s.mu[i] + (1 - b1) * g[i];
      ahead[i] = b1 * s.mu[i] / (1 - std::pow(b1, step + 1)) + (1 - b1) * g[i] / (1 - std::pow(b1, step));
    }
    if (is_matrix) {
      ahead = muon_direction_of(ahead, trained.shape, matrix->second, scale);
    } else {
      for (std::size_t i = 0; i < g.size(); ++i) {
        s.nu[i] = b2 * s.nu[i] + (1 - b2) * g[i] * g[i];
        ahead[i] /= std::sqrt(s.nu[i] / (1 - std::pow(b2, step))) + 1e-8;
      }
    }
    for (std::size_t i = 0; i < g.size(); ++i) {
      s.parameter[i] -= kRate * (ahead[i] + (is_matrix ? decay : 0.1) * s.parameter[i]);
    }
  };
}

// Five iterations in float32 of numbers up to 1 are off by some 1e-5.
TEST(Muon, IsItsFormula) {
  const auto by_ratio = [](double rows, double columns) { return std::sqrt(std::max(1.0, columns / rows)); };
  const auto by_rms = [](double rows, double columns) { return 0.2 * std::sqrt(std::max(rows, columns)); };
  hold_to(muon(0.95, 0, by_ratio), "opt_type=muon", 1e-5);
  hold_to(muon(0.8, 0.3, by_rms), "opt_type=muon muon_beta=0.8 muon_weight_decay=0.3 muon_consistent_rms=0.2", 1e-5);
}

TEST(Clipping, ScalesAllGradientsByOneFactor) {
  Training training(kConstantRate + "opt_type=sgd gradient_clipping_threshold=0.5");
  const std::vector<Numbers> gradients = random_gradients(training, 1);
  const std::vector<Numbers> before = parameters_of(training);
  const double raw = norm(gradients);
  ASSERT_GT(raw, 0.5);
  const StepMetrics metrics = update(training, gradients);
  EXPECT_NEAR(metrics.raw_grad_norm, raw, 1e-5 * raw);
  EXPECT_NEAR(metrics.grad_norm, 0.5, 1e-6);
  const std::vector<Numbers> after = parameters_of(training);
  EXPECT_NEAR(metrics.param_norm, norm(after), 1e-5 * norm(after));
  for (std::size_t i = 0; i < before.size(); ++i) {
    for (std::size_t k = 0; k < before[i].size(); ++k) {
      EXPECT_NEAR(after[i][k], before[i][k] - kRate * gradients[i][k] * 0.5 / raw, 3e-7);
    }
  }
}

TEST(Clipping, LeavesGradientsAloneThatAreSmallOrWhenItIsOff) {
  for (const char* threshold : {"1000", "0"}) {
    Training training(kConstantRate + "opt_type=sgd gradient_clipping_threshold=" + threshold);
    const std::vector<Numbers> gradients = random_gradients(training, 1);
    const StepMetrics metrics = update(training, gradients);
    EXPECT_EQ(metrics.grad_norm, metrics.raw_grad_norm);
    EXPECT_NEAR(metrics.raw_grad_norm, norm(gradients), 1e-4);
  }
}

TEST(Clipping, OfNoGradientAtAllIsNoGradient) {
  Training training(kConstantRate + "opt_type=sgd gradient_clipping_threshold=1");
  const std::vector<Numbers> before = parameters_of(training);
  std::vector<Numbers> gradients;
  for (const Numbers& parameter : before) gradients.emplace_back(parameter.size(), 0.0);
  EXPECT_EQ(update(training, gradients).grad_norm, 0);
  EXPECT_EQ(parameters_of(training), before);
}

TEST(Update, CountsStepsAndTellsTheRate) {
  Training training(kTinyModel + "steps=20 learning_rate=0.5");
  const std::vector<Numbers> gradients = random_gradients(training, 1);
  for (std::int64_t step = 0; step < 3; ++step) {
    EXPECT_EQ(training.trainer.steps_done(), step);
    const StepMetrics metrics = update(training, gradients);
    EXPECT_EQ(metrics.step, step);
    EXPECT_EQ(metrics.learning_rate, learning_rate(training.settings(), step));
  }
}

// A rate of zero moves nothing, but the moments see the gradient.
TEST(Update, AtARateOfZeroMovesNothing) {
  Training training(kTinyModel + "steps=20 learning_rate=0.5");
  const std::vector<Numbers> before = parameters_of(training);
  update(training, random_gradients(training, 1));
  EXPECT_EQ(parameters_of(training), before);
}

// Its moments are those of its first gradient at the second step: 0.1 g of 1 - 0.9^2, 0.05 g^2 of 1 - 0.95^2.
TEST(Update, ForgetsTheMomentsOfAParameterThatIsSet) {
  Training training(kConstantRate + "adam_weight_decay=0 gradient_clipping_threshold=0");
  const std::string path = "decoder/decoder_norm/scale";
  const std::vector<Numbers> first = random_gradients(training, 1);
  const std::vector<Numbers> second = random_gradients(training, 50);
  update(training, first);
  training.trainer.set_parameter(path, training.array({12}, Numbers(12, 1)));
  EXPECT_EQ(training.parameter(path), Numbers(12, 1));
  update(training, second);
  const std::vector<std::string> paths = training.paths();
  const Numbers& gradient =
      second[static_cast<std::size_t>(std::find(paths.begin(), paths.end(), path) - paths.begin())];
  const double step = kRate * (0.1 / 0.19) / std::sqrt(0.05 / 0.0975);
  const Numbers made = training.parameter(path);
  for (std::size_t i = 0; i < made.size(); ++i) EXPECT_NEAR(made[i], gradient[i] > 0 ? 1 - step : 1 + step, 1e-6);
}

TEST(Update, RefusesParametersThatTheModelLacksOrHasInAnotherShape) {
  Training training(kConstantRate);
  const std::string path = "decoder/decoder_norm/scale";
  EXPECT_EQ(test::message_of([&] { training.trainer.set_parameter(path, training.array({3}, Numbers(3, 1))); }),
            path + ": shape [3], [12] was expected");
  EXPECT_EQ(test::message_of([&] { training.trainer.set_parameter("nothing", training.array({3}, Numbers(3, 1))); }),
            "nothing: the model has no such parameter");
  const run::Array narrow = training.trainer.pool().allocate({12}, DType::bfloat16);
  EXPECT_EQ(test::message_of([&] { training.trainer.set_parameter(path, narrow); }),
            path + ": values of bfloat16, float32 was expected");
}

// The first moment in bfloat16 has 8 bits.
TEST(Update, MayKeepTheFirstMomentNarrow) {
  Training wide(kConstantRate);
  Training narrow(kConstantRate + "mu_dtype=bfloat16");
  for (unsigned step = 1; step <= 3; ++step) {
    update(wide, random_gradients(wide, step));
    update(narrow, random_gradients(narrow, step));
  }
  const Numbers a = wide.parameter("decoder/layers/mlp/wo/kernel");
  const Numbers b = narrow.parameter("decoder/layers/mlp/wo/kernel");
  double worst = 0;
  for (std::size_t i = 0; i < a.size(); ++i) worst = std::max(worst, std::abs(a[i] - b[i]));
  EXPECT_GT(worst, 1e-6);
  EXPECT_LT(worst, 3 * kRate / 128);
}

}  // namespace
}  // namespace moesh::train
