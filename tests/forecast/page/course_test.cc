// What a page draws of a step agrees with the forecast.
#include "forecast/page/course.h"

#include <numeric>

#include <gtest/gtest.h>

#include "advice/planned.h"
#include "tests/support.h"

namespace moesh::forecast {
namespace {

using plan::InstructionId;

constexpr const char* kMoe =
    "model_name=mixtral-8x7b override_model_config=true base_num_decoder_layers=7 max_target_length=512 per_device_batch_size=2 "
    "compile_topology=v5p-16 ici_fsdp_parallelism=2 ici_expert_parallelism=4";

class StepCourse : public ::testing::Test {
 protected:
  explicit StepCourse(const std::string& more = "") : planned_(advice::plan_step(test::words_of(kMoe + more))) {}

  const Forecast& told() const { return planned_.step.forecast; }
  Bins bins() const { return {100, told().seconds}; }
  double seconds(const std::function<bool(InstructionId)>& counts) const {
    const Shares shares = shares_of(course_, bins(), 1, [&](InstructionId id) { return counts(id) ? std::optional<std::size_t>(0) : std::nullopt; });
    return std::accumulate(shares[0].begin(), shares[0].end(), 0.0) * bins().width();
  }

  advice::Planned planned_;
  ShownPlan shown_{"", "", "", "", planned_.step.forecast, planned_.step.program.plan, planned_.session.layout, planned_.session.target};
  Course course_ = course_of(shown_);
};

class MicrobatchesCourse : public StepCourse {
 protected:
  MicrobatchesCourse() : StepCourse(" per_device_batch_size=4 gradient_accumulation_steps=5") {}
};

double sum(const Components& components) { return static_cast<double>(std::accumulate(components.begin(), components.end(), std::int64_t{0})); }

void expect_forecast(const Course& course, const Forecast& f, const std::function<double(const std::function<bool(InstructionId)>&)>& seconds) {
  EXPECT_DOUBLE_EQ(course.schedule.seconds, f.seconds);
  EXPECT_NEAR(seconds([&](InstructionId id) { return course.sent_by(id) == nullptr; }), f.kernels, 1e-9 * f.seconds);
  for (const Sent& sent : f.collectives)
    EXPECT_NEAR(seconds([&](InstructionId id) { return id == sent.instruction; }), sent.seconds, 1e-9 * f.seconds) << sent.name;
}

TEST_F(StepCourse, RunsAsLongAsIsForecast) {
  expect_forecast(course_, told(), [&](const auto& counts) { return seconds(counts); });
}

TEST_F(MicrobatchesCourse, RunsAsLongAsIsForecast) {
  expect_forecast(course_, told(), [&](const auto& counts) { return seconds(counts); });
}

// Kernels never overlap, also in iterations that the schedule did not follow one by one.
TEST_F(StepCourse, HasNoTwoKernelsAtOnce) {
  double before = 0;
  std::size_t count = 0;
  for (const auto& run : runs_between(course_, 0, told().seconds)) {
    if (course_.sent_by(run.instruction) != nullptr) continue;
    EXPECT_GE(run.start, before - 1e-9 * told().seconds);
    before = run.finish;
    ++count;
  }
  std::int64_t expected = 0;
  for (const KernelTime& kernel : told().kernel_times) expected += kernel.runs;
  EXPECT_EQ(count, static_cast<std::size_t>(expected));
}

TEST_F(StepCourse, HoldsAtMostThePeak) {
  double most = 0;
  std::size_t at = 0;
  for (std::size_t i = 0; i < course_.memory.size(); ++i) {
    if (sum(course_.memory[i]) > most) at = i;
    most = std::max(most, sum(course_.memory[i]));
  }
  const Memory& memory = told().memory;
  const auto gaps = memory.of(Component::gaps);
  EXPECT_EQ(most, static_cast<double>(memory.peak - gaps));
  EXPECT_EQ(at, static_cast<std::size_t>(memory.at));
  for (std::size_t c = 0; c + 1 < static_cast<std::size_t>(kComponents); ++c) EXPECT_EQ(course_.memory[at][c], memory.components[c]) << c;
  double drawn = 0;
  for (const InstructionId id : fullest_of(course_, bins())) drawn = std::max(drawn, id < 0 ? 0 : sum(course_.memory[static_cast<std::size_t>(id)]));
  EXPECT_EQ(drawn, most) << "the peak is seen";
}

TEST_F(StepCourse, HasPhasesAndLoopsInOrder) {
  const std::vector<Stretch> phases = phases_of(course_), loops = loops_of(course_);
  ASSERT_EQ(phases.size(), 3u);
  EXPECT_EQ(phases[0].name, "forward");
  EXPECT_EQ(phases[2].end, told().seconds);
  ASSERT_EQ(loops.size(), 2u);
  EXPECT_EQ(loops[0].name, "decoder/layers \u00d7 7");
  EXPECT_LE(loops[0].end, loops[1].begin);
  EXPECT_GT(loops[0].end - loops[0].begin, 0.5 * (phases[0].end - phases[0].begin));
}

// A layer's time in either pass, multiplied by the number of layers, is about the time of that pass's loop.
TEST_F(StepCourse, ShowsALayerOfEachPass) {
  const std::vector<Stretch> loops = loops_of(course_);
  for (const std::size_t pass : {0u, 1u}) {
    const auto window = layer_window(course_, pass == 0 ? graph::Phase::forward : graph::Phase::backward);
    ASSERT_TRUE(window);
    EXPECT_EQ(window->count, 7);
    EXPECT_GE(window->begin, loops[pass].begin);
    EXPECT_LE(window->end, loops[pass].end * (1 + 1e-9));
    EXPECT_NEAR(7 * (window->end - window->begin), loops[pass].end - loops[pass].begin, 0.1 * (loops[pass].end - loops[pass].begin));
  }
}

// The loop over microbatches contains both passes, so it must not be taken for the layers of either.
TEST_F(MicrobatchesCourse, ShowsALayerOfEachPass) {
  ASSERT_EQ(loops_of(course_).size(), 1u);
  for (const graph::Phase phase : {graph::Phase::forward, graph::Phase::backward}) {
    const auto window = layer_window(course_, phase);
    ASSERT_TRUE(window);
    EXPECT_EQ(window->count, 7);
    EXPECT_LT(window->end, told().seconds);
  }
}

}  // namespace
}  // namespace moesh::forecast
