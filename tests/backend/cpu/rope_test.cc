#include <cmath>

#include "tests/backend/cpu/kernel_support.h"

namespace moesh::backend::test {
namespace {

using graph::RopeOf;

std::vector<RopeOf> kinds_of_rope() {
  RopeOf standard, scaled, llama3, yarn, pairs;
  scaled.linear_scaling = 2;
  llama3.kind = RopeOf::Kind::llama3;
  llama3.max_timescale = 500000;
  yarn.kind = RopeOf::Kind::yarn;
  yarn.factor = 40;
  yarn.attention_scaling = true;
  yarn.truncate = false;
  pairs = yarn;
  pairs.interleave = true;
  pairs.truncate = true;
  return {standard, scaled, llama3, yarn, pairs};
}

Tensor positions(std::uint32_t limit) { return draws({2, 9}, 7, limit); }

TEST(Rope, IsThePlainOne) {
  for (RopeOf of : kinds_of_rope()) {
    for (const bool inverse : {false, true}) {
      of.inverse = inverse;
      for (const DType dtype : floating_types()) {
        for (const std::uint32_t limit : {9u, 3000u}) {  // positions that repeat, and positions that do not
          const Tensor x = noise(dtype, {2, 9, 3, 24}, 1);
          hold_to_plain({Op::rope, of, {x, positions(limit)}, {x}});
        }
      }
    }
  }
}

// Heads of these sizes have loops of their own.
TEST(Rope, OfUsualHeadsIsThePlainOne) {
  for (const std::int64_t dim : {32, 64, 128, 256}) {
    for (RopeOf of : kinds_of_rope()) {
      for (const bool inverse : {false, true}) {
        of.inverse = inverse;
        for (const DType dtype : floating_types()) {
          const Tensor x = noise(dtype, {2, 9, 3, dim}, 1);
          hold_to_plain({Op::rope, of, {x, positions(3000)}, {x}});
        }
      }
    }
  }
}

TEST(Temper, GrowsWithTheLogarithmOfWholeFloors) {
  const Tensor places = values(DType::int32, {1, 5}, {0, 4, 5, 11, 23});
  const Call call{Op::temper, graph::TemperOf{0.5, 6}, {places}, {values(DType::float32, {1, 5}, {0, 0, 0, 0, 0})}};
  const Tensor made = run(call)[0];
  const double expected[] = {1, 1, 1 + 0.5 * std::log(2.0), 1 + 0.5 * std::log(3.0), 1 + 0.5 * std::log(5.0)};
  for (std::int64_t i = 0; i < 5; ++i) EXPECT_NEAR(made.at(i), expected[i], 1e-6) << i;
  hold_to_plain(call);
}

TEST(Rope, TurningBackUndoesTurningButForTheScale) {
  for (RopeOf of : kinds_of_rope()) {
    of.attention_scaling = false;
    const Tensor x = noise(DType::float64, {2, 9, 3, 24}, 1);
    const Tensor turned = run({Op::rope, of, {x, positions(4000)}, {x}})[0];
    of.inverse = true;
    expect_near(run({Op::rope, of, {turned, positions(4000)}, {x}})[0], x, 1e-14);
  }
}

TEST(Rope, TurningBackIsTheGradientOfTurning) {
  for (RopeOf of : kinds_of_rope()) {
    const Tensor x = noise(DType::float64, {1, 2, 1, 8}, 1);
    const Tensor at = values(DType::int32, {1, 2}, {3, 1000});
    const Tensor dy = noise(DType::float64, {1, 2, 1, 8}, 2);
    const Tensor expected = slope({Op::rope, of, {x, at}, {x}}, 0, {dy});
    of.inverse = true;
    expect_near(run({Op::rope, of, {dy, at}, {x}})[0], expected, 1e-6);
  }
}

// Elements i and i + d/2 are rotated as a pair, by position * 10000^(-2i/d).
TEST(Rope, TurnsHalvesByThePositionOverTheTimescale) {
  const Tensor x = values(DType::float64, {1, 1, 1, 4}, {1, 2, 3, 4});
  const Tensor made = run({Op::rope, RopeOf{}, {x, values(DType::int32, {1, 1}, {5})}, {x}})[0];
  EXPECT_NEAR(made.at(0), std::cos(5.0) - 3 * std::sin(5.0), 1e-12);
  EXPECT_NEAR(made.at(2), 3 * std::cos(5.0) + std::sin(5.0), 1e-12);
  EXPECT_NEAR(made.at(1), 2 * std::cos(0.05) - 4 * std::sin(0.05), 1e-12);
  EXPECT_NEAR(made.at(3), 4 * std::cos(0.05) + 2 * std::sin(0.05), 1e-12);
}

// Expected values come from MaxText's modules for x = 0.25, 0.5, ... 2. Angles at position 1000 are float32 numbers, accurate to 6e-5,
// hence the tolerance.
TEST(Rope, GivesTheNumbersOfMaxText) {
  const Tensor x = values(DType::float32, {1, 1, 1, 8}, {0.25, 0.5, 0.75, 1, 1.25, 1.5, 1.75, 2});
  const auto expect = [&](const RopeOf& of, int position, const std::vector<double>& wanted) {
    const Tensor at = values(DType::int32, {1, 1}, {static_cast<double>(position)});
    expect_near(run({Op::rope, of, {x, at}, {x}})[0], values(DType::float32, {1, 1, 1, 8}, wanted), 3e-5);
  };
  expect({}, 1000, {-0.893004715, 1.190707922, 0.322733343, -1.142639637, 0.909693718, 1.040295362, -1.876391053, 1.922075510});
  RopeOf yarn;
  yarn.kind = RopeOf::Kind::yarn;
  yarn.original_max_positions = 512;
  yarn.factor = 4;
  yarn.interleave = true;
  expect(yarn, 1000, {-0.272845030, 1.034875751, -1.899137616, 1.200788856, 0.487909436, 0.701093554, -0.453625202, 2.370781898});
  yarn.interleave = false;
  yarn.truncate = false;
  yarn.attention_scaling = true;
  expect(yarn, 1000, {-1.016801476, -1.476720572, -1.876670718, 0.539829314, 1.035804033, 1.029800296, -1.085281372, 2.488165855});
  // MaxText leaves the rotated pairs of Llama 3.1 as neighbours. Here they come out as halves, which changes no product of query and key.
  RopeOf llama3;
  llama3.kind = RopeOf::Kind::llama3;
  llama3.max_timescale = 500000;
  llama3.interleave = true;
  llama3.factor = 8;
  llama3.original_max_positions = 8192;
  expect(llama3, 7, {-0.140017733, 0.463951081, 1.244480610, 1.749906898, 0.541197777, 1.160710692, 1.504582286, 2.000081539});
}

}  // namespace
}  // namespace moesh::backend::test
