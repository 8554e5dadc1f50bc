#include <algorithm>
#include <set>

#include "tests/run/cpu/kernel_support.h"

namespace moesh::run::test {
namespace {

using graph::SpreadOf;
using graph::TopKOf;

TopKOf mixtral() { return {.k = 2}; }
TopKOf qwen3() { return {.k = 4, .normalize = true}; }
TopKOf deepseek2() { return {.k = 3, .weights = TopKOf::Weights::chosen, .scale = 16}; }
TopKOf deepseek3() {
  return {.k = 4, .weights = TopKOf::Weights::chosen, .normalize = true, .normalize_epsilon = 1e-20, .scale = 2.5, .groups = 4, .chosen_groups = 2};
}
TopKOf random_routing() { return {.k = 4, .random = true}; }

Call route(const TopKOf& of, DType dtype, bool apart, double low = 0.05) {
  Call call{Op::top_k, of, {noise(dtype, {2, 30, 16}, 1, low, 1)}, {Tensor(dtype, {2, 30, of.k}), Tensor(DType::int32, {2, 30, of.k})}};
  if (apart) call.operands.push_back(noise(dtype, {2, 30, 16}, 2, low, 1));
  return call;
}

TEST(TopK, IsThePlainOne) {
  for (const TopKOf& of : {mixtral(), qwen3(), deepseek2(), deepseek3(), random_routing()}) {
    for (const bool apart : {false, true}) {
      for (const DType dtype : floating_types()) {
        const Call call = route(of, dtype, apart);
        hold_to_plain(call);
        const Tensors made = run(call);
        hold_to_plain({Op::top_k_grad, of, {call.operands.back(), made[1], noise(dtype, {2, 30, of.k}, 3)}, {call.operands[0]}}, dtype == DType::bfloat16 ? 0.02 : 0);
      }
    }
  }
}

TEST(TopK, GradientIsItsSlope) {
  for (const TopKOf& of : {mixtral(), qwen3(), deepseek2(), deepseek3()}) {
    const Call call = route(of, DType::float64, true);
    const Tensor ids = run(call)[1];
    const Tensor dweights = noise(DType::float64, {2, 30, of.k}, 3);
    hold_to_differences(call, {dweights}, Op::top_k_grad, {call.operands[1], ids, dweights}, {1});
  }
}

TEST(TopK, TakesTheLowerIndexAmongEquals) {
  const Tensor scores = values(DType::float32, {1, 1, 6}, {1, 3, 2, 3, 2, 3});
  const Tensors made = run({Op::top_k, TopKOf{.k = 4}, {scores}, {Tensor(DType::float32, {1, 1, 4}), Tensor(DType::int32, {1, 1, 4})}});
  EXPECT_EQ(made[1].bytes, values(DType::int32, {1, 1, 4}, {1, 3, 5, 2}).bytes);
}

// Group scores sum the best two: [5, 1], [3, 3.5], [0, 9]. The middle one beats the first.
TEST(TopK, LeavesOutTheGroupsWithTheLowestScores) {
  const Tensor scores = values(DType::float32, {1, 1, 6}, {5, 1, 3, 3.5, 0, 9});
  const TopKOf of{.k = 3, .weights = TopKOf::Weights::chosen, .groups = 3, .chosen_groups = 2};
  const Tensors made = run({Op::top_k, of, {scores}, {Tensor(DType::float32, {1, 1, 3}), Tensor(DType::int32, {1, 1, 3})}});
  EXPECT_EQ(made[1].bytes, values(DType::int32, {1, 1, 3}, {5, 3, 2}).bytes);
  EXPECT_EQ(made[0].bytes, values(DType::float32, {1, 1, 3}, {9, 3.5, 3}).bytes);
}

TEST(TopK, WeightsComeFromTheSecondScores) {
  const Tensor choosing = values(DType::float32, {1, 1, 3}, {1, 2, 3});
  const Tensor weighing = values(DType::float32, {1, 1, 3}, {7, 1, 3});
  const TopKOf of{.k = 2, .weights = TopKOf::Weights::chosen, .normalize = true, .scale = 2};
  const Tensors made = run({Op::top_k, of, {choosing, weighing}, {Tensor(DType::float32, {1, 1, 2}), Tensor(DType::int32, {1, 1, 2})}});
  EXPECT_EQ(made[0].bytes, values(DType::float32, {1, 1, 2}, {1.5, 0.5}).bytes);
}

TEST(TopK, RandomExpertsDifferAndAllGetTheirShare) {
  const Tensors made = run({Op::top_k, random_routing(), {noise(DType::float32, {1, 4000, 16}, 1)}, {Tensor(DType::float32, {1, 4000, 4}), Tensor(DType::int32, {1, 4000, 4})}});
  std::vector<int> counts(16);
  for (std::int64_t token = 0; token < 4000; ++token) {
    std::set<double> ids;
    for (std::int64_t i = 0; i < 4; ++i) {
      ids.insert(made[1].at(token * 4 + i));
      ++counts[static_cast<std::size_t>(made[1].at(token * 4 + i))];
    }
    ASSERT_EQ(ids.size(), 4u);
  }
  // 1000 each, with a standard deviation of 27.
  EXPECT_GT(*std::min_element(counts.begin(), counts.end()), 860);
  EXPECT_LT(*std::max_element(counts.begin(), counts.end()), 1140);
}

Tensor chosen_ids() { return run(route(qwen3(), DType::float32, false))[1]; }

TEST(Spread, AndItsGradientAreThePlainOnes) {
  for (const DType dtype : floating_types()) {
    hold_to_plain({Op::spread, SpreadOf{16}, {noise(dtype, {2, 30, 4}, 1), chosen_ids()}, {Tensor(dtype, {2, 30, 16})}});
    hold_to_plain({Op::spread_grad, SpreadOf{16}, {chosen_ids(), noise(dtype, {2, 30, 16}, 1)}, {Tensor(dtype, {2, 30, 4})}});
  }
  const Tensor weights = noise(DType::float64, {2, 30, 4}, 1);
  const Tensor dspread = noise(DType::float64, {2, 30, 16}, 2);
  hold_to_differences({Op::spread, SpreadOf{16}, {weights, chosen_ids()}, {dspread}}, {dspread}, Op::spread_grad, {chosen_ids(), dspread}, {0});
}

TEST(ExpertLoad, CountsTheTokensOfEachExpertInEachRow) {
  const Tensor ids = values(DType::int32, {2, 2, 2}, {0, 3, 3, 1, 2, 0, 0, 2});
  const Tensor made = run_plain({Op::expert_load, {}, {ids}, {Tensor(DType::float32, {2, 4})}})[0];
  EXPECT_EQ(made.bytes, values(DType::float32, {2, 4}, {1, 1, 0, 2, 2, 0, 2, 0}).bytes);
}

}  // namespace
}  // namespace moesh::run::test
