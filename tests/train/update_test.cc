// A step of each optimizer, compared with the formulas that define it, computed in float64.
#include <algorithm>
#include <cmath>
#include <deque>
#include <functional>
#include <map>
#include <numeric>

#include "tests/train/trainer_support.h"
#include "tests/train/update_support.h"

namespace moesh::train {
namespace {

using test::kConstantRate;
using test::kTinyModel;
using test::Numbers;
using test::random_gradients;
using test::Training;
using test::Updated;
using test::Updating;

constexpr double kRate = 0.03;

double norm(const std::vector<Numbers>& all) {
  double squares = 0;
  for (const Numbers& numbers : all)
    squares = std::inner_product(numbers.begin(), numbers.end(), numbers.begin(), squares);
  return std::sqrt(squares);
}

// A parameter and the moments that an optimizer keeps for it.
struct State {
  Numbers parameter, mu, nu;
};

// One step of one parameter; `step` counts from 1.
using Rule = std::function<void(const Trained&, State&, const Numbers& gradient, double step)>;

// Compares three updates with the rule. Parameters are near 1, so float32 rounds them by 1e-7 per step.
void hold_to(const Rule& rule, const std::string& request, double tolerance = 5e-7, std::int64_t devices = 1) {
  Updating updating(kConstantRate + "gradient_clipping_threshold=0 " + request, devices);
  std::vector<State> states;
  for (const Numbers& parameter : updating.parameters()) {
    states.push_back({parameter, Numbers(parameter.size(), 0), Numbers(parameter.size(), 0)});
  }
  for (unsigned step = 1; step <= 3; ++step) {
    const std::vector<Numbers> gradients = random_gradients(updating, 100 * step);
    updating.update(gradients);
    for (std::size_t i = 0; i < states.size(); ++i) {
      const Trained& trained = updating.trained[i];
      rule(trained, states[i], gradients[i], step);
      const Numbers made = updating.numbers(trained.path);
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

// The Pax variant folds the bias correction into the decay rates.
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
            "the command line: adamw_mask holds '(', a regular expression was expected: missing closing parenthesis at byte 1\n"
            "  fix: adamw_mask=[bias, '.*norm.*']");
}

Rule sgd() {
  return [](const Trained&, State& s, const Numbers& g, double) {
    for (std::size_t i = 0; i < g.size(); ++i) s.parameter[i] -= kRate * g[i];
  };
}

TEST(Sgd, IsItsFormula) { hold_to(sgd(), "opt_type=sgd"); }

// The dims of a stacked parameter that are the layers, the matrix's rows and its columns.
struct MatrixOf {
  std::vector<int> layers, rows, columns;
};
const std::map<std::string, MatrixOf> kMatrices{
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

// The orthogonalised matrix of each layer, times `scale(rows, columns)`.
Numbers muon_direction_of(const Numbers& momentum, const Shape& shape, const MatrixOf& of,
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

// Matrices are updated by Muon, everything else by Adam with Nesterov momentum.
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

double by_ratio(double rows, double columns) { return std::sqrt(std::max(1.0, columns / rows)); }

// The tolerance: five iterations in float32 on numbers up to 1 are off by some 1e-5. On one device a loop
// runs over the layers, on many devices all layers are computed at once.
TEST(Muon, IsItsFormula) {
  const auto by_rms = [](double rows, double columns) { return 0.2 * std::sqrt(std::max(rows, columns)); };
  for (const std::int64_t devices : {1, 8}) {
    hold_to(muon(0.95, 0, by_ratio), "opt_type=muon", 1e-5, devices);
    hold_to(muon(0.8, 0.3, by_rms), "opt_type=muon muon_beta=0.8 muon_weight_decay=0.3 muon_consistent_rms=0.2", 1e-5, devices);
  }
}

// With every optimizer, on one device and on several.
TEST(TrainableParametersMask, NamesWhatIsTrained) {
  const std::string mask = " trainable_parameters_mask=[norm,mlp/wo/k.*l]";
  const auto only_named = [](const Rule& rule) -> Rule {
    return [=](const Trained& of, State& state, const Numbers& gradient, double step) {
      const bool is_named = of.path.find("norm") != std::string::npos || of.path.ends_with("/wo/kernel");
      EXPECT_EQ(of.is_frozen, !is_named) << of.path;
      if (is_named) return rule(of, state, gradient, step);
      EXPECT_EQ(of.moments, 0) << of.path;
    };
  };
  for (const std::int64_t devices : {1, 8}) {
    hold_to(only_named(adamw({})), "opt_type=adamw" + mask, 5e-7, devices);
    hold_to(only_named(adam_pax({})), "opt_type=adam_pax" + mask, 5e-7, devices);
    hold_to(only_named(sgd()), "opt_type=sgd" + mask, 5e-7, devices);
    hold_to(only_named(muon(0.95, 0, by_ratio)), "opt_type=muon" + mask, 1e-5, devices);
  }
}

// The number of iterations of each loop in the update.
std::vector<std::int64_t> loops_of(const Updating& updating) {
  std::vector<std::int64_t> counts;
  for (const graph::Node& node : updating.graph.nodes) {
    if (const auto* of = std::get_if<graph::RepeatOf>(&node.attributes)) counts.push_back(of->count());
  }
  return counts;
}

// Six layers with four experts: one layer gives four devices a matrix each, two layers give eight devices one each.
// For weights with one matrix per layer, four and eight devices take all six layers at once, so there is no loop.
TEST(Muon, TakesAsManyLayersAtATimeAsGiveEachDeviceAMatrix) {
  const std::string request = kConstantRate + "opt_type=muon model_name=mixtral-8x7b override_model_config=true num_experts=4 "
                                              "num_experts_per_tok=2 base_moe_mlp_dim=20 base_num_decoder_layers=6";
  std::deque<Updating> all;
  for (const std::int64_t devices : {1, 2, 4, 8}) all.emplace_back(request, devices);
  using LoopCounts = std::vector<std::int64_t>;
  const auto sorted = [](LoopCounts counts) {
    std::sort(counts.begin(), counts.end());
    return counts;
  };
  EXPECT_EQ(sorted(loops_of(all[0])), LoopCounts(8, 6)) << "query, key, value, out, the router and three of experts";
  EXPECT_EQ(sorted(loops_of(all[1])), (LoopCounts{3, 3, 3, 3, 3, 6, 6, 6}));
  EXPECT_EQ(sorted(loops_of(all[2])), (LoopCounts{6, 6, 6}));
  EXPECT_EQ(sorted(loops_of(all[3])), (LoopCounts{3, 3, 3}));
  for (unsigned step = 1; step <= 3; ++step) {
    const std::vector<Numbers> gradients = random_gradients(all[0], step);
    for (Updating& updating : all) updating.update(gradients);
  }
  for (const auto& [name, value] : all[0].state) {
    for (std::size_t i = 1; i < all.size(); ++i) EXPECT_EQ(all[i].numbers(name), all[0].numbers(name)) << name;
  }
}

// An expert that got no token has zero momentum, so its direction is zero and its weights keep their values.
TEST(Muon, LeavesMatricesOfZerosWhereTheyAre) {
  Updating updating(kConstantRate + "opt_type=muon");
  const std::vector<Numbers> before = updating.parameters();
  std::vector<Numbers> gradients;
  for (const Numbers& parameter : before) gradients.emplace_back(parameter.size(), 0.0);
  updating.update(gradients);
  for (std::size_t i = 0; i < before.size(); ++i) {
    EXPECT_TRUE(updating.trained[i].moments != 1 || updating.parameters()[i] == before[i]) << updating.trained[i].path;
  }
}

TEST(Clipping, ScalesAllGradientsByOneFactor) {
  Updating updating(kConstantRate + "opt_type=sgd gradient_clipping_threshold=0.5");
  const std::vector<Numbers> gradients = random_gradients(updating, 1);
  const std::vector<Numbers> before = updating.parameters();
  const double raw = norm(gradients);
  ASSERT_GT(raw, 0.5);
  const Updated metrics = updating.update(gradients);
  EXPECT_NEAR(metrics.raw_grad_norm, raw, 1e-5 * raw);
  EXPECT_NEAR(metrics.grad_norm, 0.5, 1e-6);
  const std::vector<Numbers> after = updating.parameters();
  EXPECT_NEAR(metrics.param_norm, norm(after), 1e-5 * norm(after));
  for (std::size_t i = 0; i < before.size(); ++i) {
    for (std::size_t k = 0; k < before[i].size(); ++k) {
      EXPECT_NEAR(after[i][k], before[i][k] - kRate * gradients[i][k] * 0.5 / raw, 3e-7);
    }
  }
}

TEST(Clipping, LeavesGradientsAloneThatAreSmallOrWhenItIsOff) {
  for (const char* threshold : {"1000", "0"}) {
    Updating updating(kConstantRate + "opt_type=sgd gradient_clipping_threshold=" + threshold);
    const std::vector<Numbers> gradients = random_gradients(updating, 1);
    const Updated metrics = updating.update(gradients);
    EXPECT_EQ(metrics.grad_norm, metrics.raw_grad_norm);
    EXPECT_NEAR(metrics.raw_grad_norm, norm(gradients), 1e-4);
  }
}

TEST(Clipping, OfNoGradientAtAllIsNoGradient) {
  Updating updating(kConstantRate + "opt_type=sgd gradient_clipping_threshold=1");
  const std::vector<Numbers> before = updating.parameters();
  std::vector<Numbers> gradients;
  for (const Numbers& parameter : before) gradients.emplace_back(parameter.size(), 0.0);
  EXPECT_EQ(updating.update(gradients).grad_norm, 0);
  EXPECT_EQ(updating.parameters(), before);
}

TEST(Update, CountsStepsAndTellsTheRate) {
  Training training(kTinyModel + "steps=20 learning_rate=0.5");
  for (std::int64_t step = 0; step < 3; ++step) {
    EXPECT_EQ(training.trainer.steps_done(), step);
    const StepMetrics metrics = training.trainer.step(training.batch());
    EXPECT_EQ(metrics.step, step);
    EXPECT_EQ(metrics.learning_rate, learning_rate(training.settings(), step));
  }
}

// At a rate of zero no parameter moves, but the moments still see the gradient.
TEST(Update, AtARateOfZeroMovesNothing) {
  Updating updating(kTinyModel + "steps=20 learning_rate=0.5");
  const std::vector<Numbers> before = updating.parameters();
  updating.update(random_gradients(updating, 1));
  EXPECT_EQ(updating.parameters(), before);
  EXPECT_NE(updating.numbers("mu/decoder/decoder_norm/scale"), Numbers(12, 0));
}

TEST(Update, ForgetsTheMomentsOfAParameterThatIsSet) {
  Training training(kConstantRate);
  const std::string path = "decoder/decoder_norm/scale", other = "decoder/layers/mlp/wo/kernel";
  training.trainer.step(training.batch());
  const auto moment = [&](const std::string& name) { return test::numbers_of(training.trainer.moment(name)); };
  const Numbers of_other = moment("nu/" + other);
  EXPECT_NE(moment("mu/" + path), Numbers(12, 0));
  training.trainer.set_parameter(path, training.array({12}, Numbers(12, 1)));
  EXPECT_EQ(training.parameter(path), Numbers(12, 1));
  EXPECT_EQ(moment("mu/" + path), Numbers(12, 0));
  EXPECT_EQ(moment("nu/" + path), Numbers(12, 0));
  EXPECT_EQ(moment("nu/" + other), of_other);
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

// The first moment in bfloat16 has 8 significant bits.
TEST(Update, MayKeepTheFirstMomentNarrow) {
  Updating wide(kConstantRate);
  Updating narrow(kConstantRate + "mu_dtype=bfloat16");
  for (unsigned step = 1; step <= 3; ++step) {
    wide.update(random_gradients(wide, step));
    narrow.update(random_gradients(narrow, step));
  }
  const Numbers a = wide.numbers("decoder/layers/mlp/wo/kernel");
  const Numbers b = narrow.numbers("decoder/layers/mlp/wo/kernel");
  double worst = 0;
  for (std::size_t i = 0; i < a.size(); ++i) worst = std::max(worst, std::abs(a[i] - b[i]));
  EXPECT_GT(worst, 1e-6);
  EXPECT_LT(worst, 3 * kRate / 128);
}

}  // namespace
}  // namespace moesh::train
