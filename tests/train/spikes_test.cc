#include "train/spikes.h"

#include <cmath>

#include "tests/support.h"

namespace moesh::train {
namespace {

const std::string kWatch = "skip_step_on_spikes=true ";

RecentSteps recent_steps(const std::string& request) { return RecentSteps(config::load(test::words_of(request)).settings); }

constexpr double kNone = std::numeric_limits<float>::max();

TEST(RecentSteps, LimitNothingUnlessThatIsAsked) {
  RecentSteps recent = recent_steps("skip_step_interval=2");
  EXPECT_FALSE(recent.are_watched());
  for (int i = 0; i < 5; ++i) recent.add(1, 1, false);
  EXPECT_EQ(recent.limits().loss, kNone);
  EXPECT_EQ(recent.limits().grad_norm, kNone);
  EXPECT_EQ(recent.size(), 0);
  EXPECT_TRUE(recent.numbers().empty());
}

TEST(RecentSteps, LimitNothingBeforeHalfOfTheIntervalButOne) {
  for (const auto& [interval, first] : {std::pair{1, 1}, {2, 1}, {3, 1}, {4, 1}, {5, 1}, {6, 2}, {7, 2}, {128, 63}}) {
    RecentSteps recent = recent_steps(kWatch + "skip_step_interval=" + std::to_string(interval));
    for (int step = 0; step < 100; ++step, recent.add(step, 1, false)) EXPECT_EQ(recent.limits().loss == kNone, step < first) << interval << " " << step;
  }
}

// The mean of the last ones plus so many standard deviations, whose divisor is one less than their number.
TEST(RecentSteps, LimitByTheLastOnes) {
  RecentSteps recent = recent_steps(kWatch + "skip_step_interval=4 skip_step_scaling_factor=1.5");
  for (const double value : {100.0, 1.0, 2.0, 4.0, 9.0}) recent.add(value, 10 * value, false);
  EXPECT_EQ(recent.size(), 4);
  const double deviation = std::sqrt((9.0 + 4.0 + 0.0 + 25.0) / 3);
  EXPECT_DOUBLE_EQ(recent.limits().loss, 4 + 1.5 * deviation);
  EXPECT_DOUBLE_EQ(recent.limits().grad_norm, 40 + 15 * deviation);
}

TEST(RecentSteps, AreNotSpoiledByWhatIsNotFinite) {
  RecentSteps recent = recent_steps(kWatch + "skip_step_interval=4");
  for (const double value : {1.0, 2.0, 3.0}) recent.add(value, value, false);
  const SpikeLimits before = recent.limits();
  recent.add(std::nan(""), 1, true);
  recent.add(1, std::numeric_limits<double>::infinity(), true);
  EXPECT_EQ(recent.limits().loss, before.loss);
  EXPECT_EQ(recent.limits().grad_norm, before.grad_norm);
  EXPECT_EQ(recent.left_out(), 2);
}

TEST(RecentSteps, AreKeptAndTaken) {
  RecentSteps recent = recent_steps(kWatch + "skip_step_interval=4");
  for (int i = 0; i < 9; ++i) recent.add(std::sqrt(i), std::sin(i), i % 3 == 0);
  RecentSteps same = recent_steps(kWatch + "skip_step_interval=4"), shorter = recent_steps(kWatch + "skip_step_interval=2");
  EXPECT_TRUE(same.take(recent.numbers()));
  EXPECT_EQ(same.numbers(), recent.numbers());
  EXPECT_EQ(same.left_out(), 3);
  EXPECT_TRUE(shorter.take(recent.numbers()));
  EXPECT_EQ(shorter.size(), 2);
  shorter.add(1, 1, false);
  EXPECT_EQ(shorter.left_out(), 3);
}

// A run that watches no steps hands on how many were left out before it.
TEST(RecentSteps, AreCountedThroughARunThatWatchesNone) {
  RecentSteps watched = recent_steps(kWatch), unwatched = recent_steps("steps=1"), again = recent_steps(kWatch);
  for (int i = 0; i < 3; ++i) watched.add(1, 1, true);
  EXPECT_TRUE(unwatched.take(watched.numbers()));
  EXPECT_EQ(unwatched.left_out(), 3);
  EXPECT_EQ(unwatched.size(), 0);
  unwatched.add(std::nan(""), 1, true);
  EXPECT_TRUE(again.take(unwatched.numbers()));
  EXPECT_EQ(again.left_out(), 3);
  EXPECT_EQ(again.size(), 0);
}

TEST(RecentSteps, AreNotTakenFromNumbersThatDoNotFit) {
  RecentSteps recent = recent_steps(kWatch);
  recent.add(1, 2, false);
  const RunNumbers good = recent.numbers();
  EXPECT_FALSE(recent.take({}));
  EXPECT_EQ(recent.size(), 0);
  for (const auto& [name, values] : good) {
    RunNumbers bad = good;
    bad.erase(name);
    EXPECT_FALSE(recent.take(bad)) << name;
    bad = good;
    bad[name].push_back(-1);
    EXPECT_FALSE(recent.take(bad)) << name;
  }
  EXPECT_FALSE(recent.take({{"recent_losses", {1}}, {"recent_grad_norms", {1}}, {"updates_left_out", {-1}}}));
  EXPECT_FALSE(recent.take({{"recent_losses", {1}}, {"recent_grad_norms", {1}}, {"updates_left_out", {1e300}}}));
}

}  // namespace
}  // namespace moesh::train
