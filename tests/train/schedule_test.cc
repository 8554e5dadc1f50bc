// The learning rate of every step, compared with the closed formula of its schedule.
#include <cmath>
#include <numbers>

#include "tests/support.h"
#include "train/step.h"

namespace moesh::train {
namespace {

config::Settings settings(const std::string& request) { return config::load(test::words_of(request)).settings; }

double cosine_between(double high, double low, double part) {
  const double a = (std::cos(std::numbers::pi * part) + 1) / 2;
  return high * a + low * (1 - a);
}

TEST(Schedule, WarmsUpFromZeroAndFollowsACosineDown) {
  const config::Settings of =
      settings("steps=100 learning_rate=0.02 warmup_steps_fraction=0.15 learning_rate_final_fraction=0.3");
  for (int step = 0; step < 15; ++step) EXPECT_DOUBLE_EQ(learning_rate(of, step), 0.02 * step / 15) << step;
  for (int step = 15; step < 100; ++step) {
    EXPECT_DOUBLE_EQ(learning_rate(of, step), cosine_between(0.02, 0.006, (step - 15) / 84.0)) << step;
  }
  EXPECT_DOUBLE_EQ(learning_rate(of, 15), 0.02);
  EXPECT_DOUBLE_EQ(learning_rate(of, 99), 0.006);
}

// The first ten of the learning rates that the reference recorded for 20 steps and a peak of 0.001.
TEST(Schedule, IsTheRecordedOne) {
  const std::vector<double> recorded{0.0,
                                     0.0005000000237487257,
                                     0.0010000000474974513,
                                     0.000992337940260768,
                                     0.0009696125634945929,
                                     0.0009325977880507708,
                                     0.0008825540426187217,
                                     0.0008211856475099921,
                                     0.0007505822577513754,
                                     0.000673148431815207};
  const config::Settings of = settings("steps=20 learning_rate=0.001");
  for (std::size_t step = 0; step < recorded.size(); ++step) {
    EXPECT_NEAR(learning_rate(of, static_cast<std::int64_t>(step)), recorded[step], 1e-9) << step;
  }
  EXPECT_NEAR(learning_rate(of, 19), 1e-4, 1e-9);
}

TEST(Schedule, MayHaveNoWarmUp) {
  const config::Settings of =
      settings("steps=11 learning_rate=1 warmup_steps_fraction=0 learning_rate_final_fraction=0");
  EXPECT_DOUBLE_EQ(learning_rate(of, 0), 1);
  EXPECT_DOUBLE_EQ(learning_rate(of, 5), 0.5);
  EXPECT_NEAR(learning_rate(of, 10), 0, 1e-15);
}

TEST(Schedule, MayBeAllWarmUp) {
  const config::Settings of = settings("steps=10 learning_rate=1 warmup_steps_fraction=1");
  for (int step = 0; step < 10; ++step) EXPECT_DOUBLE_EQ(learning_rate(of, step), step / 10.0);
}

TEST(Schedule, IsZeroBeyondItsOwnStepsWhenTrainingGoesOn) {
  const config::Settings of = settings("steps=30 learning_rate_schedule_steps=20 learning_rate=1");
  EXPECT_DOUBLE_EQ(learning_rate(of, 19), 0.1);
  for (int step = 20; step < 30; ++step) EXPECT_EQ(learning_rate(of, step), 0) << step;
}

TEST(Schedule, HasSteps) {
  EXPECT_EQ(test::message_of([] { settings("learning_rate_schedule_steps=0"); }),
            "the command line: learning_rate_schedule_steps=0: the learning rate would be 0 in every step\n"
            "  fix: learning_rate_schedule_steps=-1 for as many as steps");
}

TEST(Schedule, IsThatOfItsOwnStepsWhenTrainingEndsEarly) {
  const config::Settings shorter = settings("steps=5 learning_rate_schedule_steps=20 learning_rate=1");
  const config::Settings whole = settings("steps=20 learning_rate=1");
  for (int step = 0; step < 5; ++step) EXPECT_EQ(learning_rate(shorter, step), learning_rate(whole, step));
}

TEST(Schedule, StaysLevelAndFallsAlongALine) {
  const config::Settings of = settings(
      "steps=100 learning_rate=2 lr_schedule_type=wsd warmup_steps_fraction=0.1 wsd_decay_steps_fraction=0.21 "
      "learning_rate_final_fraction=0.5");
  for (int step = 0; step < 10; ++step) EXPECT_DOUBLE_EQ(learning_rate(of, step), 0.2 * step);
  for (int step = 10; step < 79; ++step) EXPECT_DOUBLE_EQ(learning_rate(of, step), 2);
  for (int step = 79; step < 100; ++step) EXPECT_DOUBLE_EQ(learning_rate(of, step), 2 - (step - 79) / 20.0) << step;
}

TEST(Schedule, MayFallAlongACosineAfterBeingLevel) {
  const config::Settings of = settings(
      "steps=50 learning_rate=2 lr_schedule_type=wsd wsd_decay_style=cosine warmup_steps_fraction=0 "
      "wsd_decay_steps_fraction=0.22");
  for (int step = 0; step < 39; ++step) EXPECT_DOUBLE_EQ(learning_rate(of, step), 2);
  for (int step = 39; step < 50; ++step)
    EXPECT_DOUBLE_EQ(learning_rate(of, step), cosine_between(2, 0.2, (step - 39) / 10.0));
}

}  // namespace
}  // namespace moesh::train
