#include <algorithm>
#include <cmath>
#include <set>

#include "tests/backend/cpu/kernel_support.h"

namespace moesh::backend::test {
namespace {

using graph::SpreadOf;
using graph::TopKOf;

TopKOf mixtral() { return {.k = 2}; }
TopKOf qwen3() { return {.k = 4, .normalize = true}; }
TopKOf deepseek2() { return {.k = 3, .weights = TopKOf::Weights::chosen, .scale = 16}; }
TopKOf deepseek3() {
  return {.k = 4, .weights = TopKOf::Weights::chosen, .normalize = true, .normalize_epsilon = 1e-20, .scale = 2.5, .groups = 4, .chosen_groups = 2};
}

// Random scores for 16 experts, from a key and the numbers of the tokens.
Call draw(std::int64_t tokens, double skew, double key = 7) {
  Call call{Op::random_scores, graph::DrawOf{16, skew}, {values(DType::int32, {2}, {3, key}), Tensor(DType::int32, {2, tokens / 2})}, {Tensor(DType::float32, {2, tokens / 2, 16})}};
  for (std::int64_t i = 0; i < tokens; ++i) call.operands[1].set(i, static_cast<double>(i));
  return call;
}

Call route(const TopKOf& of, DType dtype, bool apart, double low = 0.05) {
  Call call{Op::top_k, of, {noise(dtype, {2, 30, 16}, 1, low, 1)}, {Tensor(dtype, {2, 30, of.k}), Tensor(DType::int32, {2, 30, of.k})}};
  if (apart) call.operands.push_back(noise(dtype, {2, 30, 16}, 2, low, 1));
  return call;
}

TEST(TopK, IsThePlainOne) {
  for (const TopKOf& of : {mixtral(), qwen3(), deepseek2(), deepseek3()}) {
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

// Experts that are given, some of them twice.
Call weigh(const TopKOf& of, DType dtype) {
  return {Op::weigh, of, {noise(dtype, {2, 30, 16}, 1, 0.05, 1), draws({2, 30, of.k}, 2, 6)}, {Tensor(dtype, {2, 30, of.k})}};
}

TEST(GiveExperts, IsThePlainOne) {
  for (const DType dtype : floating_types()) {
    const Tensor ids = draws({9, 3}, 1, 16);
    Tensor table(dtype, {9, 3});
    for (std::int64_t i = 0; i < table.count(); ++i) table.set(i, ids.at(i));
    hold_to_plain({Op::give_experts, {}, {table, draws({2, 30}, 2, 9)}, {Tensor(DType::int32, {2, 30, 3})}});
  }
}

TEST(Weigh, AndItsGradientAreThePlainOnes) {
  for (const TopKOf& of : {mixtral(), qwen3(), deepseek2(), deepseek3()}) {
    for (const DType dtype : floating_types()) {
      const Call call = weigh(of, dtype);
      hold_to_plain(call);
      hold_to_plain({Op::top_k_grad, of, {call.operands[0], call.operands[1], noise(dtype, {2, 30, of.k}, 3)}, {call.operands[0]}},
                    dtype == DType::bfloat16 ? 0.02 : 0);
    }
  }
}

TEST(Weigh, GradientIsItsSlope) {
  for (const TopKOf& of : {mixtral(), qwen3(), deepseek2(), deepseek3()}) {
    const Call call = weigh(of, DType::float64);
    const Tensor dweights = noise(DType::float64, {2, 30, of.k}, 3);
    hold_to_differences(call, {dweights}, Op::top_k_grad, {call.operands[0], call.operands[1], dweights}, {0});
  }
}

TEST(TopK, TakesTheLowerIndexAmongEquals) {
  const Tensor scores = values(DType::float32, {1, 1, 6}, {1, 3, 2, 3, 2, 3});
  const Tensors made = run({Op::top_k, TopKOf{.k = 4}, {scores}, {Tensor(DType::float32, {1, 1, 4}), Tensor(DType::int32, {1, 1, 4})}});
  EXPECT_EQ(made[1].bytes, values(DType::int32, {1, 1, 4}, {1, 3, 5, 2}).bytes);
}

// The score of a group is the sum of its best two: 5 + 1, 3 + 3.5 and 0 + 9. So the last two groups are chosen.
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

// The scores that choose experts may have another type than the scores that become weights.
TEST(TopK, MayBeChosenByScoresOfAnotherType) {
  for (const DType dtype : floating_types()) {
    for (const DType choosing : floating_types()) {
      Call call = route(deepseek3(), dtype, true);
      call.operands[0] = noise(choosing, {2, 30, 16}, 5);
      hold_to_plain(call);
    }
  }
}

TEST(RandomScores, AreThePlainOnes) {
  for (const double skew : {0.0, 1.5}) hold_to_plain(draw(40, skew));
}

// The scores of a token depend on its number and the key, but not on its position in the batch.
TEST(RandomScores, FollowTheKeyAndTheTokensNumber) {
  const Tensor whole = run(draw(40, 1))[0];
  Call call = draw(40, 1);
  call.operands[1] = values(DType::int32, {1, 3}, {39, 0, 17});
  call.results[0] = Tensor(DType::float32, {1, 3, 16});
  const Tensor some = run(call)[0];
  for (std::int64_t e = 0; e < 16; ++e) {
    EXPECT_EQ(some.at(e), whole.at(39 * 16 + e));
    EXPECT_EQ(some.at(16 + e), whole.at(e));
    EXPECT_EQ(some.at(32 + e), whole.at(17 * 16 + e));
    EXPECT_NE(some.at(e), some.at(16 + e));
    EXPECT_NE(run(draw(2, 1, 8))[0].at(e), whole.at(e)) << "another key";
  }
}

// How often each of 16 experts is among the k experts of a token, over 4000 tokens.
std::vector<int> times_drawn(std::int64_t k, double skew) {
  const TopKOf of{.k = k, .weights = TopKOf::Weights::chosen};
  const Tensor scores = run(draw(4000, skew))[0];
  const Tensors made = run({Op::top_k, of, {scores, noise(DType::bfloat16, scores.shape, 1)}, {Tensor(DType::bfloat16, {2, 2000, k}), Tensor(DType::int32, {2, 2000, k})}});
  std::vector<int> counts(16);
  for (std::int64_t token = 0; token < 4000; ++token) {
    std::set<double> ids;
    for (std::int64_t i = 0; i < k; ++i) {
      ids.insert(made[1].at(token * k + i));
      ++counts[static_cast<std::size_t>(made[1].at(token * k + i))];
    }
    EXPECT_EQ(static_cast<std::int64_t>(ids.size()), k);
  }
  return counts;
}

// Each of the 16 experts is expected 1000 times, with a standard deviation of 27; the bounds are about five of them away.
TEST(RandomScores, GiveAllExpertsTheirShare) {
  const std::vector<int> counts = times_drawn(4, 0);
  EXPECT_GT(*std::min_element(counts.begin(), counts.end()), 860);
  EXPECT_LT(*std::max_element(counts.begin(), counts.end()), 1140);
}

// With one expert per token, each expert is drawn as often as the skew says, within five standard deviations.
TEST(RandomScores, AreAsSkewedAsIsAsked) {
  for (const double skew : {0.5, 1.0, 2.0}) {
    const std::vector<int> counts = times_drawn(1, skew);
    double all = 0;
    for (int e = 0; e < 16; ++e) all += std::pow(e + 1, -skew);
    for (int e = 0; e < 16; ++e) {
      const double share = std::pow(e + 1, -skew) / all;
      EXPECT_NEAR(counts[static_cast<std::size_t>(e)], 4000 * share, 5 * std::sqrt(4000 * share * (1 - share))) << skew << " " << e;
    }
  }
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
}  // namespace moesh::backend::test
