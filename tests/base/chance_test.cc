#include "base/chance.h"

#include <gtest/gtest.h>

namespace moesh {
namespace {

// Draws every subset of `drawn` of `all` things, and counts those that have one of the first `here`.
double share_of_draws(int here, int drawn, int all) {
  int draws = 0, met = 0;
  for (unsigned chosen = 0; chosen < 1U << all; ++chosen) {
    if (__builtin_popcount(chosen) != drawn) continue;
    ++draws;
    if ((chosen & ((1U << here) - 1)) != 0) ++met;
  }
  return static_cast<double>(met) / draws;
}

TEST(ChanceOfAny, IsTheShareOfAllDrawsThatHaveOne) {
  for (int all = 1; all <= 8; ++all) {
    for (int here = 0; here <= all; ++here) {
      for (int drawn = 0; drawn <= all; ++drawn) {
        EXPECT_NEAR(chance_of_any(here, drawn, all), share_of_draws(here, drawn, all), 1e-12) << here << " of " << all << ", " << drawn << " drawn";
      }
    }
  }
}

TEST(ChanceOfAny, TakesExpectedNumbers) {
  EXPECT_DOUBLE_EQ(chance_of_any(0.5, 1, 4), 0.125);
  EXPECT_GT(chance_of_any(1.5, 2, 8), chance_of_any(1, 2, 8));
  EXPECT_LT(chance_of_any(1.5, 2, 8), chance_of_any(2, 2, 8));
}

}  // namespace
}  // namespace moesh
