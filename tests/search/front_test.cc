// The front of a search holds what nothing else is as good as.
#include "search/front.h"

#include <algorithm>
#include <limits>
#include <random>

#include <gtest/gtest.h>

#include "tests/search/found.h"

namespace moesh::search {
namespace {

std::vector<std::int64_t> peaks(const Front& front) {
  std::vector<std::int64_t> peaks;
  for (const Found& one : front.found()) peaks.push_back(one.offer.peak);
  return peaks;
}

TEST(Front, HoldsWhatNothingElseIsAsGoodAs) {
  Front front(2);
  front.add(found(1.0, 50));
  front.add(found(1.5, 40));
  front.add(found(1.2, 60));  // slower and larger than the first
  front.add(found(1.7, 39));  // hardly smaller than the second
  front.add(found(0.9, 70));
  EXPECT_EQ(peaks(front), (std::vector<std::int64_t>{70, 50, 40}));
  EXPECT_TRUE(front.excludes({1.6, 39}));
  EXPECT_FALSE(front.excludes({1.6, 37}));
  EXPECT_FALSE(front.excludes({0.8, 1000})) << "faster than all";
  EXPECT_TRUE(front.excludes({1.81, 1})) << "twice as slow as the fastest";
  front.add(found(0.8997, 80));
  EXPECT_EQ(peaks(front), (std::vector<std::int64_t>{70, 50, 40})) << "hardly faster";
  front.add(found(0.7, 50));
  EXPECT_EQ(peaks(front), (std::vector<std::int64_t>{50})) << "what is too slow now is gone";
}

// More rows make a token cheaper and a step longer.
TEST(Front, MayWeighTheStepInsteadOfMemory) {
  const auto of_rows = [](std::int64_t rows, double seconds) {
    Found made;
    made.offer = {{}, 1, rows, 50, 100, seconds, static_cast<double>(rows) / seconds};
    return made;
  };
  Front front(std::numeric_limits<double>::infinity(), Beside::step);
  for (const auto& [rows, seconds] : {std::pair(64, 8.0), {16, 4.0}, {4, 3.0}, {1, 2.95}, {2, 5.0}}) front.add(of_rows(rows, seconds));
  std::vector<std::int64_t> rows;
  for (const Found& one : front.found()) rows.push_back(one.offer.tokens);
  EXPECT_EQ(rows, (std::vector<std::int64_t>{64, 16, 4})) << "a row alone is hardly sooner";
  EXPECT_TRUE(front.excludes({.seconds_per_token = 0.3, .peak = 1, .seconds = 4.5}));
  EXPECT_FALSE(front.excludes({.seconds_per_token = 0.2, .peak = 1000, .seconds = 4.5})) << "cheaper than with 16 rows";
  EXPECT_FALSE(front.excludes({.seconds_per_token = 9, .peak = 1000, .seconds = 2})) << "sooner than all";
}

TEST(Front, IsTheSameInAnyOrder) {
  std::mt19937 random(3);
  std::vector<Found> all;
  for (int i = 0; i < 300; ++i) {
    const double seconds = std::uniform_real_distribution(1.0, 1.4)(random);
    all.push_back(found(seconds, static_cast<std::int64_t>(std::uniform_real_distribution(0.8, 1.2)(random) * 1e6 / seconds)));
  }
  std::vector<std::int64_t> first;
  for (int order = 0; order < 20; ++order) {
    Front front(1.25);
    for (const Found& one : all) front.add(one);
    const std::vector<std::int64_t> shown = peaks(front);
    if (first.empty()) first = shown;
    EXPECT_EQ(shown, first);
    EXPECT_GT(shown.size(), 2u);
    const double slowest = 1.25 * front.found().front().seconds_per_token();
    for (const Found& one : all) {
      const std::vector<Found> chosen = front.found();
      const bool has_as_good = std::any_of(chosen.begin(), chosen.end(), [&](const Found& other) {
        return 0.9995 * other.seconds_per_token() <= one.seconds_per_token() && 0.975 * static_cast<double>(other.offer.peak) <= static_cast<double>(one.offer.peak);
      });
      EXPECT_TRUE(has_as_good || one.seconds_per_token() > slowest * 0.999) << one.seconds_per_token() << " " << one.offer.peak;
    }
    std::shuffle(all.begin(), all.end(), random);
  }
}

}  // namespace
}  // namespace moesh::search
