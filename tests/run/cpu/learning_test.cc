#include <cmath>

#include "tests/run/cpu/kernel_support.h"

namespace moesh::run::test {
namespace {

using graph::AdamOf;
using graph::SgdOf;

Tensor scalars(double rate, double step) { return values(DType::float32, {2}, {rate, step}); }

Call adam(const AdamOf& of, DType of_parameter, DType of_mu, double step, std::int64_t count = 5000) {
  const Tensor p = noise(of_parameter, {count}, 1);
  const Tensor mu = noise(of_mu, {count}, 3, -0.1, 0.1);
  const Tensor nu = noise(of_parameter, {count}, 4, 0, 0.01);
  return {Op::adam_update, of, {p, noise(DType::float32, {count}, 2), mu, nu, scalars(1e-2, step)}, {p, mu, nu}};
}

AdamOf with(bool nesterov, bool pax) {
  AdamOf of;
  of.nesterov = nesterov;
  of.pax = pax;
  of.epsilon_root = 1e-10;
  return of;
}

TEST(Learning, AdamIsThePlainOne) {
  for (const AdamOf& of : {with(false, false), with(true, false), with(false, true)}) {
    for (const double step : {1.0, 2.0, 300.0}) {
      hold_to_plain(adam(of, DType::float32, DType::float32, step, 40001));
      hold_to_plain(adam(of, DType::float32, DType::bfloat16, step));
      hold_to_plain(adam(of, DType::float64, DType::float64, step));
    }
  }
}

// optax.adamw at its first step: both moments correct to the gradient, so the parameter moves by rate * sign + decay.
TEST(Learning, AdamsFirstStepIsTheSignOfTheGradient) {
  const Tensor zero = filled(DType::float64, {3}, 0);
  const Tensor p = values(DType::float64, {3}, {1, -2, 3});
  const Tensor g = values(DType::float64, {3}, {0.5, -0.01, 4});
  const Tensor made = run({Op::adam_update, AdamOf{}, {p, g, zero, zero, scalars(0.125, 1)}, {p, p, p}})[0];
  for (std::int64_t i = 0; i < 3; ++i) {
    const double sign = g.at(i) / (std::abs(g.at(i)) + 1e-8);
    EXPECT_NEAR(made.at(i), p.at(i) - 0.125 * (sign + 0.1 * p.at(i)), 1e-12);
  }
}

// Three steps of optax.adamw, of it with Nesterov, and of MaxText's adam_pax.
TEST(Learning, AdamGivesTheNumbersOfOptaxAndMaxText) {
  const std::vector<std::vector<double>> gradients{{0.3, -0.02}, {-0.1, 0.5}, {0.7, 0.001}};
  const auto expect = [&](const AdamOf& of, const std::vector<std::vector<double>>& wanted, const std::vector<double>& last_mu) {
    Tensors state{values(DType::float32, {2}, {2, -1}), filled(DType::float32, {2}, 0), filled(DType::float32, {2}, 0)};
    for (std::size_t step = 0; step < 3; ++step) {
      const Tensor g = values(DType::float32, {2}, gradients[step]);
      state = run({Op::adam_update, of, {state[0], g, state[1], state[2], scalars(0.125, static_cast<double>(step) + 1)}, state});
      expect_near(state[0], values(DType::float32, {2}, wanted[step]), 3e-7, fmt::format("step {}", step));
    }
    expect_near(state[1], values(DType::float32, {2}, last_mu), 3e-7);
  };
  expect(with(false, false), {{1.850000024, -0.862500072}, {1.776336670, -0.940214276}, {1.666932344, -0.997912943}}, {0.085299999, 0.043480001});
  expect(with(true, false), {{1.790789485, -0.803289592}, {1.766243577, -0.940889001}, {1.610762358, -0.978543758}}, {0.085299999, 0.043480001});
  expect(with(false, true), {{1.850000024, -0.862500072}, {1.776336670, -0.940214276}, {1.666932344, -0.997912943}}, {0.314760149, 0.160442799});
}

TEST(Learning, PaxTakesTheFirstGradientWhole) {
  const Tensor zero = filled(DType::float64, {1}, 0.7);
  const Tensor g = values(DType::float64, {1}, {0.3});
  const Tensors made = run({Op::adam_update, with(false, true), {g, g, zero, zero, scalars(0.125, 1)}, {g, g, g}});
  EXPECT_NEAR(made[1].at(0), 0.3, 1e-15);
  EXPECT_NEAR(made[2].at(0), 0.09, 1e-15);
}

TEST(Learning, SgdIsThePlainOne) {
  for (const DType dtype : floating_types()) {
    const Tensor p = noise(dtype, {40001}, 1);
    hold_to_plain({Op::sgd_update, SgdOf{0.1}, {p, noise(DType::float32, {40001}, 2), scalars(0.01, 1)}, {p}});
  }
}

TEST(Learning, SquaresSumInFloat64) {
  for (const DType dtype : floating_types()) {
    hold_to_plain({Op::sum_squares, {}, {noise(dtype, {100001}, 1)}, {Tensor(DType::float32, {})}}, 1e-7);
  }
  const Tensor x = filled(DType::float32, {1 << 21}, 0.1);
  const double exact = static_cast<double>(0.1f) * static_cast<double>(0.1f) * (1 << 21);
  EXPECT_EQ(run({Op::sum_squares, {}, {x}, {Tensor(DType::float32, {})}})[0].at(0), static_cast<double>(static_cast<float>(exact)));
}

}  // namespace
}  // namespace moesh::run::test
