#include <cmath>
#include <functional>

#include "backend/update_numbers.h"
#include "tests/backend/cpu/kernel_support.h"

namespace moesh::backend::test {
namespace {

using graph::AdamOf;
using graph::SgdOf;

// The numbers of an update, in the order of graph::UpdateNumber.
Tensor numbers(double rate, double step, double factor = 1, double applied = 1) {
  return values(DType::float32, {graph::kUpdateNumbers}, {rate, step, factor, applied});
}

Call adam(const AdamOf& of, DType of_parameter, DType of_mu, double step, std::int64_t count = 5000, double factor = 1) {
  const Tensor p = noise(of_parameter, {count}, 1);
  const Tensor mu = noise(of_mu, {count}, 3, -0.1, 0.1);
  const Tensor nu = noise(of_parameter, {count}, 4, 0, 0.01);
  return {Op::adam_update, of, {p, noise(DType::float32, {count}, 2), mu, nu, numbers(1e-2, step, factor)}, {p, mu, nu}};
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
      hold_to_plain(adam(of, DType::float32, DType::float32, step, 5000, 0.3));
      hold_to_plain(adam(of, DType::float32, DType::bfloat16, step));
      hold_to_plain(adam(of, DType::float64, DType::float64, step));
      hold_to_plain(adam(of, DType::bfloat16, DType::bfloat16, step));
    }
  }
}

// Gradients may have any floating type, and an update can also return the sum of squares of the new parameter.
TEST(Learning, UpdatesTakeAnyGradientAndGiveSquares) {
  for (const DType of_parameter : floating_types()) {
    for (const DType of_mu : floating_types()) {
      if (of_mu == DType::float64 && of_parameter != DType::float64) continue;  // moments are never wider than their parameter
      for (const DType of_gradient : floating_types()) {
        for (const double applied : {1.0, 0.0}) {
          Call call = adam(AdamOf{}, of_parameter, of_mu, 3, 40001);
          call.operands[1] = converted(call.operands[1], of_gradient);
          call.operands[4] = numbers(1e-2, 3, 1, applied);
          call.results.push_back(Tensor(DType::float32, {}));
          hold_to_plain(call);
          const Tensors made = run(call);
          EXPECT_EQ(made[3].at(0), run({Op::sum_squares, {}, {made[0]}, {made[3]}})[0].at(0)) << "the same sum, in the same order";
        }
        const Tensor p = noise(of_parameter, {5000}, 1), g = noise(of_gradient, {5000}, 2), mu = noise(of_mu, {5000}, 3, -0.1, 0.1);
        hold_to_plain({Op::sgd_update, SgdOf{0.1}, {p, g, numbers(1e-2, 3)}, {p}});
        if (of_parameter == DType::float32) hold_to_plain({Op::momentum_update, graph::MomentumOf{}, {g, mu, numbers(1e-2, 3)}, {mu, Tensor(DType::float32, {5000})}});
      }
    }
  }
}

// As in optax.adamw. At the first step, bias correction turns the moments into the gradient and its square, but for the rounding of the
// correction to float32, so the parameter moves by the rate times the sum of the gradient's sign and the weight decay.
TEST(Learning, AdamsFirstStepIsTheSignOfTheGradient) {
  const Tensor zero = filled(DType::float64, {3}, 0);
  const Tensor p = values(DType::float64, {3}, {1, -2, 3});
  const Tensor g = values(DType::float64, {3}, {0.5, -0.01, 4});
  const Tensor made = run({Op::adam_update, AdamOf{}, {p, g, zero, zero, numbers(0.125, 1)}, {p, p, p}})[0];
  for (std::int64_t i = 0; i < 3; ++i) {
    const double sign = g.at(i) / (std::abs(g.at(i)) + 1e-8);
    EXPECT_NEAR(made.at(i), p.at(i) - 0.125 * (sign + 0.1 * p.at(i)), 1e-7);
  }
}

// Expected values come from three steps of optax.adamw, of optax.adamw with Nesterov momentum, and of MaxText's adam_pax.
TEST(Learning, AdamGivesTheNumbersOfOptaxAndMaxText) {
  const std::vector<std::vector<double>> gradients{{0.3, -0.02}, {-0.1, 0.5}, {0.7, 0.001}};
  const auto expect = [&](const AdamOf& of, const std::vector<std::vector<double>>& wanted, const std::vector<double>& last_mu) {
    Tensors state{values(DType::float32, {2}, {2, -1}), filled(DType::float32, {2}, 0), filled(DType::float32, {2}, 0)};
    for (std::size_t step = 0; step < 3; ++step) {
      const Tensor g = values(DType::float32, {2}, gradients[step]);
      state = run({Op::adam_update, of, {state[0], g, state[1], state[2], numbers(0.125, static_cast<double>(step) + 1)}, state});
      expect_near(state[0], values(DType::float32, {2}, wanted[step]), 3e-7, fmt::format("step {}", step));
    }
    expect_near(state[1], values(DType::float32, {2}, last_mu), 3e-7);
  };
  expect(with(false, false), {{1.850000024, -0.862500072}, {1.776336670, -0.940214276}, {1.666932344, -0.997912943}}, {0.085299999, 0.043480001});
  expect(with(true, false), {{1.790789485, -0.803289592}, {1.766243577, -0.940889001}, {1.610762358, -0.978543758}}, {0.085299999, 0.043480001});
  expect(with(false, true), {{1.850000024, -0.862500072}, {1.776336670, -0.940214276}, {1.666932344, -0.997912943}}, {0.314760149, 0.160442799});
}

// Expected values come from optax.adamw and optax.nadam. Corrections that are not rounded to float32 would make -1, -2 and -3 of the first.
TEST(Learning, AdamsCorrectionsAreThoseOfFloat32) {
  const Tensor one = filled(DType::float32, {1}, 1), zero = filled(DType::float32, {1}, 0);
  const auto expect = [&](bool nesterov, const std::vector<double>& wanted) {
    AdamOf of;
    of.beta2 = of.nu_decay = 0.999;
    of.weight_decay = 0;
    of.nesterov = nesterov;
    Tensors state{zero, zero, zero};
    for (std::size_t step = 0; step < 3; ++step) {
      const Call call{Op::adam_update, of, {state[0], one, state[1], state[2], numbers(1, static_cast<double>(step) + 1)}, state};
      hold_to_plain(call);
      state = run(call);
      EXPECT_NEAR(state[0].at(0), wanted[step], 8e-7) << nesterov << " in step " << step;
    }
  };
  expect(false, {-0.99999338388, -1.99998331070, -2.99997973442});
  expect(true, {-1.47367429733, -2.63097476959, -3.70919227600});
}

// Recorded with optax and with MaxText's adam_pax.
TEST(Learning, CorrectionsHaveTheBitsOfOptax) {
  EXPECT_EQ(bias_correction(0.9, 1), 0.100000024f);
  EXPECT_EQ(bias_correction(0.9, 10), 0.65132165f);
  EXPECT_EQ(bias_correction(0.95, 3), 0.142625034f);
  EXPECT_EQ(bias_correction(0.999, 1), 0.000999987125f);
  EXPECT_EQ(bias_correction(0.999, 1000), 0.63229984f);
  EXPECT_EQ(pax_decay(0.9, 1), 0);
  EXPECT_EQ(pax_decay(0.9, 3), 0.630996287f);
  EXPECT_EQ(pax_decay(0.999, 2), 0.499753177f);
  EXPECT_EQ(pax_decay(0.999, 1000), 0.99841851f);
}

TEST(Learning, PaxTakesTheFirstGradientWhole) {
  const Tensor zero = filled(DType::float64, {1}, 0.7);
  const Tensor g = values(DType::float64, {1}, {0.3});
  const Tensors made = run({Op::adam_update, with(false, true), {g, g, zero, zero, numbers(0.125, 1)}, {g, g, g}});
  EXPECT_NEAR(made[1].at(0), 0.3, 1e-15);
  EXPECT_NEAR(made[2].at(0), 0.09, 1e-15);
}

TEST(Learning, SgdIsThePlainOne) {
  for (const DType dtype : floating_types()) {
    const Tensor p = noise(dtype, {40001}, 1);
    hold_to_plain({Op::sgd_update, SgdOf{0.1}, {p, noise(DType::float32, {40001}, 2), numbers(0.01, 1)}, {p}});
    hold_to_plain({Op::sgd_update, SgdOf{0.1}, {p, noise(DType::float32, {40001}, 2), numbers(0.01, 1, -3)}, {p}});
  }
}

TEST(Learning, MomentumIsThePlainOne) {
  const Tensor g = noise(DType::float32, {40001}, 1);
  for (const DType dtype : {DType::float32, DType::bfloat16}) {
    const Tensor mu = noise(dtype, {40001}, 2);
    for (const double step : {1.0, 7.0}) {
      hold_to_plain({Op::momentum_update, graph::MomentumOf{0.9, 0.8984375}, {g, mu, numbers(0, step, 0.3)}, {mu, g}});
    }
  }
}

// At the second step, with gradients scaled by 2. The new mean is 0.75 of the old mean plus 0.25 of the scaled gradient. The direction is
// 0.75 of the new mean over 1 - 0.75^3 plus 0.25 of the scaled gradient over 1 - 0.75^2.
TEST(Learning, MomentumLooksAhead) {
  const Tensor g = values(DType::float32, {2}, {2, -1}), mu = values(DType::float32, {2}, {8, 4});
  const Tensors made = run({Op::momentum_update, graph::MomentumOf{0.75, 0.75}, {g, mu, numbers(0, 2, 2)}, {mu, g}});
  expect_near(made[0], values(DType::float32, {2}, {7, 2.5}), 1e-6);
  const auto ahead = [](double mean, double gradient) { return 0.75 * mean / (1 - 0.421875) + 0.25 * gradient / (1 - 0.5625); };
  expect_near(made[1], values(DType::float32, {2}, {ahead(7, 4), ahead(2.5, -2)}), 1e-5);
}

// Two layers in the second dim, whose mean loads are 20 and 2, whatever was dropped. Then the loads of two microbatches: each of them moves
// the biases.
TEST(Learning, BalanceMovesEachBiasTowardsTheMeanLoad) {
  const Tensor bias = values(DType::float32, {4, 2}, {1, 2, 3, 4, 5, 6, 7, 8});
  const Tensor one = values(DType::float32, {1, 2, 5}, {10, 20, 30, 20, 100, 0, 0, 0, 8, 7});
  const auto moved = [](const Tensor& of, const Tensor& load, int experts_dim) {
    return run_plain({Op::balance_update, graph::BalanceOf{0.25, experts_dim}, {of, load, numbers(0, 1)}, {of}})[0];
  };
  const Tensor made = moved(bias, one, 0);
  expect_near(made, values(DType::float32, {4, 2}, {1.25, 2.25, 3, 4.25, 4.75, 6.25, 7, 7.75}), 0);
  const Tensor two = values(DType::float32, {2, 2, 5}, {1, 2, 3, 2, 0, 2, 2, 2, 2, 0, 3, 1, 2, 2, 0, 0, 4, 2, 2, 0});
  expect_near(moved(made, two, 0), values(DType::float32, {4, 2}, {1.25, 2.5, 3.25, 4, 4.5, 6.25, 7, 7.75}), 0);
  const Tensor layers_first = values(DType::float32, {2, 4}, {1, 3, 5, 7, 2, 4, 6, 8});
  expect_near(moved(layers_first, one, 1), values(DType::float32, {2, 4}, {1.25, 3, 4.75, 7, 2.25, 4.25, 6.25, 7.75}), 0);
}

// In bfloat16 a rate of 0.01 is 0.010009765625, and each step is rounded. The exact sum of seven steps is 0.070068359375, which bfloat16
// cannot represent.
TEST(Learning, BalanceIsInTheTypeOfTheBias) {
  const Tensor load = values(DType::float32, {1, 1, 3}, {1, 3, 0});
  Tensor bias = filled(DType::bfloat16, {2}, 0);
  for (int step = 0; step < 7; ++step) {
    bias = run_plain({Op::balance_update, graph::BalanceOf{0.01, 0}, {bias, load, numbers(0, 1)}, {bias}})[0];
    EXPECT_EQ(bias.at(1), -bias.at(0));
    EXPECT_TRUE(step > 0 || bias.at(0) == 0.010009765625) << bias.at(0);
  }
  EXPECT_EQ(bias.at(0), 0.0703125);
}

TEST(Learning, ClipIsThePlainOne) {
  const Tensor highest = noise(DType::float32, {3, 5}, 2, -4, 9);
  for (const DType dtype : floating_types()) {
    for (const std::vector<int>& dims : {std::vector<int>{1, 2}, std::vector<int>{0, 2}, std::vector<int>{2, 1}}) {
      for (const bool scales_rest : {false, true}) {
        Shape shape{7, 7, 7, 40};
        for (std::size_t i = 0; i < dims.size(); ++i) shape[static_cast<std::size_t>(dims[i])] = highest.shape[i];
        const Tensor weight = noise(dtype, shape, 1);
        hold_to_plain({Op::clip_update, graph::ClipOf{2, dims, 24, scales_rest}, {weight, highest, numbers(0, 1)}, {weight}});
      }
    }
  }
}

// Heads with scores of 8, 2 and no number, and a threshold of 2: the first head's products shrink by 4.
TEST(Learning, ClipShrinksHeadsWithScoresAboveTheThreshold) {
  const Tensor weight = values(DType::float64, {1, 3, 3}, {1, 2, 4, 1, 2, 4, 1, 2, 4});
  const Tensor highest = values(DType::float32, {3}, {8, 2, std::nan("")});
  const auto clipped = [&](bool scales_rest) {
    return run_plain({Op::clip_update, graph::ClipOf{2.000001, {1}, 2, scales_rest}, {weight, highest, numbers(0, 1)}, {weight}})[0];
  };
  expect_near(clipped(false), values(DType::float64, {1, 3, 3}, {0.5, 1, 4, 1, 2, 4, 1, 2, 4}), 1e-6);
  expect_near(clipped(true), values(DType::float64, {1, 3, 3}, {0.5, 1, 1, 1, 2, 4, 1, 2, 4}), 1e-6);
}

// This holds for NaN gradients too.
TEST(Learning, KeepsEveryBitOfAStateThatIsNotUpdated) {
  const Tensor left_out = numbers(0.1, 3, std::nan(""), 0);
  const std::vector<std::function<Tensors(const Call&)>> both{[](const Call& call) { return run(call); }, run_plain};
  for (const DType dtype : floating_types()) {
    const Tensor p = noise(dtype, {5000}, 1), mu = noise(DType::bfloat16, {5000}, 2), nu = noise(dtype, {5000}, 3, 0, 1);
    const Tensor g = filled(DType::float32, {5000}, std::nan(""));
    const Tensor bias = noise(dtype, {4}, 4), load = filled(DType::float32, {1, 1, 5}, 3);
    for (const std::function<Tensors(const Call&)>& run_by : both) {
      const Tensors adam = run_by({Op::adam_update, AdamOf{}, {p, g, mu, nu, left_out}, {p, mu, nu}});
      EXPECT_EQ(adam[0].bytes, p.bytes);
      EXPECT_EQ(adam[1].bytes, mu.bytes);
      EXPECT_EQ(adam[2].bytes, nu.bytes);
      EXPECT_EQ(run_by({Op::sgd_update, SgdOf{}, {p, g, left_out}, {p}})[0].bytes, p.bytes);
      EXPECT_EQ(run_by({Op::momentum_update, graph::MomentumOf{}, {g, mu, left_out}, {mu, g}})[0].bytes, mu.bytes);
      const Tensor weight = noise(dtype, {5, 4, 250}, 5), highest = filled(DType::float32, {4}, 1e6);
      EXPECT_EQ(run_by({Op::clip_update, graph::ClipOf{1, {1}, 100, true}, {weight, highest, left_out}, {weight}})[0].bytes, weight.bytes);
    }
    EXPECT_EQ(run_plain({Op::balance_update, graph::BalanceOf{0.5, 0}, {bias, load, left_out}, {bias}})[0].bytes, bias.bytes);
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
}  // namespace moesh::backend::test
