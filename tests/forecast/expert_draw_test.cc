// Compares the computed load of experts that tokens draw at random with a plain simulation.
#include "forecast/expert_draw.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include <fmt/core.h>
#include <gtest/gtest.h>

namespace moesh::forecast {

static void PrintTo(const Draw& draw, std::ostream* out) {
  *out << fmt::format("{} tokens, {} of {} experts, {} devices, {} groups, skew {}", draw.tokens, draw.choices, draw.experts, draw.devices,
                      draw.groups, draw.skew);
}

namespace {

struct Simulated {
  double busiest = 0, overflows = 0, dropped = 0;
  std::vector<double> chances;
};

// Each expert's clock rings at a rate of r^-skew for rank r; a token takes the experts whose clocks ring first.
std::vector<std::size_t> choices_of_token(const Draw& draw, std::mt19937& random) {
  std::vector<std::pair<double, std::size_t>> rings;
  for (std::size_t e = 0; e < static_cast<std::size_t>(draw.experts); ++e)
    rings.emplace_back(std::exponential_distribution<double>(std::pow(static_cast<double>(e + 1), -draw.skew))(random),
                       e);
  std::sort(rings.begin(), rings.end());
  std::vector<std::size_t> chosen;
  for (std::int64_t k = 0; k < draw.choices; ++k) chosen.push_back(rings[static_cast<std::size_t>(k)].second);
  return chosen;
}

Simulated simulated(const Draw& draw, ExpertOrder order, std::int64_t room, int times) {
  std::mt19937 random(7);
  const auto each = static_cast<std::size_t>(draw.experts / draw.devices);
  std::vector<std::size_t> places(static_cast<std::size_t>(draw.experts));
  std::iota(places.begin(), places.end(), 0);
  Simulated made;
  made.chances.resize(places.size());
  const auto all = static_cast<double>(times) * static_cast<double>(draw.groups * draw.tokens);
  for (int n = 0; n < times; ++n) {
    if (order == ExpertOrder::random) std::shuffle(places.begin(), places.end(), random);
    double most = 0;
    for (std::int64_t group = 0; group < draw.groups; ++group) {
      std::vector<double> rows(static_cast<std::size_t>(draw.devices));
      for (std::int64_t token = 0; token < draw.tokens; ++token) {
        for (const std::size_t expert : choices_of_token(draw, random)) {
          rows[places[expert] / each] += 1;
          made.chances[expert] += 1 / all;
        }
      }
      for (const double count : rows) {
        most = std::max(most, count);
        made.dropped += std::max(0.0, count - static_cast<double>(room)) / (all * static_cast<double>(draw.choices));
      }
    }
    made.busiest += most / draw.mean_rows() / times;
    made.overflows += (most > static_cast<double>(room) ? 1.0 : 0.0) / times;
  }
  return made;
}

class DrawnExperts : public ::testing::TestWithParam<Draw> {};

// The tolerance of the busiest device: its rows spread by at most a third of the mean, so the mean of 800
// simulated draws is off by about 0.012 of it, and the computed value by as much.
TEST_P(DrawnExperts, AreAsASimulationHasThem) {
  const Draw& draw = GetParam();
  const auto room = std::max<std::int64_t>(1, static_cast<std::int64_t>(1.25 * draw.mean_rows()));
  for (const ExpertOrder order : {ExpertOrder::random, ExpertOrder::by_rank}) {
    const Load load = load_of(draw, order, room);
    const Simulated plain = simulated(draw, order, room, 800);
    EXPECT_NEAR(load.busiest, plain.busiest, 0.02 * plain.busiest);
    EXPECT_NEAR(load.overflows, plain.overflows, 0.06);
    EXPECT_NEAR(load.dropped, plain.dropped, 0.01);
    EXPECT_GE(load.almost_always, load.busiest);
    const std::vector<double> chances = chances_of(draw.experts, draw.choices, draw.skew);
    const double tolerance = 5 * 0.5 / std::sqrt(800.0 * static_cast<double>(draw.tokens * draw.groups));
    for (std::size_t e = 0; e < chances.size(); ++e) EXPECT_NEAR(chances[e], plain.chances[e], tolerance) << e;
  }
}

INSTANTIATE_TEST_SUITE_P(FewAndManyRows, DrawnExperts,
                         ::testing::Values(Draw{1, 2, 8, 8, 1, 0}, Draw{32, 2, 8, 8, 1, 0}, Draw{32, 2, 8, 4, 2, 1},
                                           Draw{16, 4, 32, 8, 1, 0.5}, Draw{200, 2, 8, 2, 1, 0},
                                           Draw{300, 2, 8, 8, 1, 1}, Draw{150, 2, 8, 2, 3, 0.5},
                                           Draw{200, 4, 16, 8, 1, 2}, Draw{300, 1, 8, 4, 1, 0.3}));

TEST(ExpertDraw, IsWorkedOutByHandWhereItIsSmall) {
  EXPECT_DOUBLE_EQ(load_of({1, 1, 8, 8, 1, 0}, ExpertOrder::random).busiest, 8)
      << "a lone choice is all of one device's rows";
  // Two tokens with one choice each, of two experts on two devices: half of the time both choices are on one device.
  EXPECT_NEAR(load_of({2, 1, 2, 2, 1, 0}, ExpertOrder::random).busiest, 1.5, 0.05);
  // A token chooses different experts.
  EXPECT_DOUBLE_EQ(load_of({50, 2, 2, 2, 1, 3}, ExpertOrder::by_rank).busiest, 1);
  EXPECT_NEAR(load_of({500, 2, 2, 2, 1, 3}, ExpertOrder::by_rank).busiest, 1, 1e-6);
}

TEST(ExpertDraw, OneDeviceHasTheMean) {
  for (const double skew : {0.0, 1.0, 100.0}) {
    for (const std::int64_t tokens : {3, 100'000}) {
      EXPECT_NEAR(load_of({tokens, 2, 8, 1, 4, skew}, ExpertOrder::random).busiest, 1, 1e-9) << tokens << " " << skew;
    }
  }
}

TEST(ExpertDraw, ManyTokensWithoutSkewAreEvenAndFewAreNot) {
  double before = 100;
  for (const std::int64_t tokens : {4, 64, 1024, 16'384, 1 << 22}) {
    const double busiest = load_of({tokens, 2, 8, 8, 1, 0}, ExpertOrder::random).busiest;
    EXPECT_LT(busiest, before) << tokens;
    before = busiest;
  }
  EXPECT_LT(before, 1.002);
  EXPECT_GT(before, 1);
  EXPECT_GT(load_of({4, 2, 8, 8, 1, 0}, ExpertOrder::random).busiest, 2);
}

TEST(ExpertDraw, GrowsWithTheSkewUpToAllTokens) {
  for (const std::int64_t tokens : {16, 4096}) {
    for (const ExpertOrder order : {ExpertOrder::random, ExpertOrder::by_rank}) {
      double before = 0;
      for (const double skew : {0.0, 0.25, 0.5, 1.0, 1.5, 2.0, 4.0}) {
        const Draw draw{tokens, 2, 16, 8, 2, skew};
        const double busiest = load_of(draw, order).busiest;
        EXPECT_GE(busiest, before) << skew;
        EXPECT_LE(busiest, 8.0001) << "a device has no more than two experts, and so no more than all choices";
        before = busiest;
      }
    }
  }
}

TEST(ExpertDraw, ASkewWithoutBoundsLeavesTheFirstExperts) {
  const Draw draw{4096, 2, 16, 8, 2, 100};
  EXPECT_NEAR(load_of(draw, ExpertOrder::random).busiest, 4 + 4.0 / 15, 0.05) << "two, once in fifteen on one device";
  EXPECT_NEAR(load_of(draw, ExpertOrder::by_rank).busiest, 8, 1e-6);
}

TEST(ExpertDraw, TheHottestTogetherAreAtLeastAsManyAsInAnyOrder) {
  for (const double skew : {0.3, 1.0, 2.0}) {
    const Draw draw{8192, 8, 64, 8, 1, skew};
    EXPECT_GT(load_of(draw, ExpertOrder::by_rank).busiest, 1.2 * load_of(draw, ExpertOrder::random).busiest) << skew;
  }
}

// However small the skew is, so that both are nearly the same.
TEST(ExpertDraw, RandomOrderIsNeverAboveTheHottestTogether) {
  for (const double skew : {0.001, 0.01, 0.05, 0.1, 0.3}) {
    for (const Draw& draw : {Draw{64, 2, 8, 4, 1, skew}, Draw{8192, 8, 64, 8, 1, skew}, Draw{8192, 8, 256, 64, 4, skew}, Draw{512, 2, 8, 8, 2, skew}}) {
      const std::int64_t room = draw.tokens * draw.choices / draw.devices;
      const Load random = load_of(draw, ExpertOrder::random, room), hottest = load_of(draw, ExpertOrder::by_rank, room);
      EXPECT_LE(random.busiest, hottest.busiest) << skew;
      EXPECT_LE(random.dropped, hottest.dropped) << skew;
    }
  }
}

TEST(ExpertDraw, NeverExceedsWhatADeviceCanGet) {
  for (const std::int64_t experts : {2, 8, 12, 64}) {
    for (const std::int64_t choices : {1, 2, 3, 8, 64}) {
      for (const std::int64_t devices : {1, 2, 4, 8}) {
        if (choices > experts || devices > experts) continue;
        for (const std::int64_t tokens : {4, 4096}) {
          for (const double skew : {0.0, 0.3, 2.0, 100.0}) {
            const Draw draw{tokens, choices, experts, devices, 2, skew};
            for (const ExpertOrder order : {ExpertOrder::random, ExpertOrder::by_rank}) {
              const Load load = load_of(draw, order, draw.most_rows());
              SCOPED_TRACE(::testing::PrintToString(draw));
              EXPECT_EQ(load.dropped, 0);
              EXPECT_EQ(load.overflows, 0);
              EXPECT_LE(load.busiest * draw.mean_rows(), static_cast<double>(draw.most_rows()) * (1 + 1e-12));
            }
          }
        }
      }
    }
  }
}

TEST(ExpertDraw, ChancesAddUpToTheChoices) {
  for (const double skew : {0.0, 0.7, 3.0, 100.0}) {
    for (const std::int64_t choices : {1, 2, 8}) {
      const std::vector<double> chances = chances_of(64, choices, skew);
      EXPECT_NEAR(std::accumulate(chances.begin(), chances.end(), 0.0), static_cast<double>(choices), 1e-6);
      EXPECT_TRUE(std::is_sorted(chances.rbegin(), chances.rend(), [](double a, double b) { return a < b - 1e-9; }));
    }
  }
  EXPECT_NEAR(chances_of(2, 1, 1)[0], 2.0 / 3, 1e-9) << "one choice: as the law says";
  EXPECT_NEAR(chances_of(3, 2, 1)[0], 6.0 / 11 + 3.0 / 11 * 6 / 8 + 2.0 / 11 * 6 / 9, 1e-9)
      << "first, or after one of the others";
  for (const double chance : chances_of(4, 4, 2)) EXPECT_NEAR(chance, 1, 1e-9);
}

TEST(ExpertDraw, SlotsBeyondAreWorkedOutByHand) {
  EXPECT_NEAR(share_beyond_slots({2, 1, 2, 1, 1, 0}, 2, 1), 0.25, 1e-9) << "both choose the same one half of the time";
  EXPECT_NEAR(share_beyond_slots({4, 2, 2, 1, 1, 0}, 4, 3), 0.25, 1e-9) << "all choose both";
  EXPECT_EQ(share_beyond_slots({64, 2, 8, 1, 1, 1}, 64, 64), 0);
  EXPECT_LT(share_beyond_slots({100'000, 2, 8, 1, 1, 0}, 100'000, 31'250), 1e-9)
      << "a quarter more than the mean is enough for many";
}

TEST(ExpertDraw, SlotsBeyondAreAsASimulationHasThem) {
  for (const double skew : {0.0, 0.5, 2.0}) {
    const Draw draw{40, 2, 8, 8, 1, skew};  // one expert per device: rows beyond the room are rows beyond the slots
    EXPECT_NEAR(share_beyond_slots(draw, 40, 12), simulated(draw, ExpertOrder::by_rank, 12, 800).dropped, 0.005)
        << skew;
  }
}

}  // namespace
}  // namespace moesh::forecast
