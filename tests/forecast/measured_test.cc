// Forecasts for a machine whose kernels were measured: times follow each op's measured points, and instructions run one after the other.
#include "forecast/measured.h"

#include <numeric>

#include <gmock/gmock.h>

#include "forecast/forecast.h"
#include "forecast/schedule.h"
#include "measure/calibration.h"
#include "plan/arena.h"
#include "tests/paths.h"
#include "tests/train/trainer_support.h"

namespace moesh::forecast {
namespace {

using mesh::MeasuredTimes;

const MeasuredTimes kTimes{{"einsum float32", {{1e3, 1e-5}, {1e6, 1e-3}}}, {"any rows float32", {{100, 2e-6}}}};

std::optional<double> seconds_of(std::string_view name, double work) { return measured_seconds(kTimes, name, "none", work); }

TEST(MeasuredSeconds, GoThroughThePointsAndOnInProportion) {
  EXPECT_DOUBLE_EQ(*seconds_of("einsum float32", 1e3), 1e-5);
  EXPECT_DOUBLE_EQ(*seconds_of("einsum float32", 1e6), 1e-3);
  EXPECT_NEAR(*seconds_of("einsum float32", std::sqrt(1e9)), 1e-4, 1e-10) << "half way of the logarithms";
  EXPECT_DOUBLE_EQ(*seconds_of("einsum float32", 4e6), 4e-3);
  EXPECT_DOUBLE_EQ(*seconds_of("einsum float32", 500), 5e-6);
  EXPECT_DOUBLE_EQ(*seconds_of("any rows float32", 50), 1e-6);
  EXPECT_FALSE(seconds_of("einsum bfloat16", 1e3));
}

TEST(MeasuredSeconds, AreThoseOfOpsThatAreBoundedAlikeFarFromTheirOwn) {
  const MeasuredTimes times{{"fill float32", {{4, 1e-6}}}, {"any elementwise float32", {{4, 1e-6}, {1e6, 1e-4}}}};
  const auto seconds = [&](double work) { return *measured_seconds(times, "fill float32", "any elementwise float32", work); };
  EXPECT_DOUBLE_EQ(seconds(8), 2e-6) << "near its own";
  EXPECT_DOUBLE_EQ(seconds(1e6), 1e-4) << "a quarter of a second in proportion to its own";
  EXPECT_DOUBLE_EQ(seconds(1e9), 250) << "far from both: its own";
  EXPECT_DOUBLE_EQ(*measured_seconds(times, "pad float32", "any elementwise float32", 1e6), 1e-4);
}

TEST(MeasuredSeconds, GrowWithTheWork) {
  double before = 0;
  for (double work = 1; work < 1e9; work *= 1.3) {
    const double seconds = *seconds_of("einsum float32", work);
    EXPECT_GT(seconds, before) << work;
    before = seconds;
  }
}

const std::string kSpread = test::kTinyMixtral + "num_experts=4 compile_topology=cpu-4 ici_fsdp_parallelism=2 ici_expert_parallelism=2";

// A machine on which every op takes a nanosecond per FLOP or byte, and the plan of a mesh with four devices.
class SharedMachine : public ::testing::Test {
 protected:
  const test::Training training_{kSpread};
  const plan::Plan& plan_ = training_.trainer.plan();

  mesh::Topology target() const {
    mesh::Topology shared = training_.session.target;
    for (const Task& task : tasks_of(plan_)) {
      if (!task.name.empty()) shared.chip.measured[task.name] = {{1, 1e-9}};
    }
    return shared;
  }
};

TEST_F(SharedMachine, DoesEachShardThatDiffersOnce) {
  const mesh::Topology shared = target();
  const std::vector<Task> tasks = tasks_of(plan_);
  const std::vector<Timing> timings = timings_of(plan_, cost::Network(training_.session.mesh, shared));
  int spread = 0, whole = 0;
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    const plan::Instruction& instruction = plan_.instructions[i];
    if (tasks[i].name.empty()) continue;
    EXPECT_NEAR(timings[i].seconds, 1e-9 * tasks[i].work * tasks[i].times, 1e-12 * timings[i].seconds) << tasks[i].name;
    if (timings[i].sent) continue;
    const auto differ = sharding::shards(sharding::distinct_axes(plan_.view(instruction.results.front()).spec), plan_.mesh);
    EXPECT_EQ(tasks[i].times, static_cast<double>(differ)) << instruction.path;
    (differ == 1 ? whole : spread) += 1;
  }
  EXPECT_GT(spread, 0);
  EXPECT_GT(whole, 0);
}

TEST_F(SharedMachine, TakesTurns) {
  const mesh::Topology shared = target();
  const std::vector<Timing> timings = timings_of(plan_, cost::Network(training_.session.mesh, shared));
  const std::vector<std::int64_t> runs = plan::runs_of(plan_);
  const Schedule schedule = schedule_of(plan_, plan::pack(plan_, [](const plan::Buffer& buffer) { return buffer.bytes; }), timings);
  double all = 0, exchanges = 0;
  for (std::size_t i = 0; i < timings.size(); ++i) {
    all += static_cast<double>(runs[i]) * timings[i].seconds;
    if (timings[i].sent) exchanges += static_cast<double>(runs[i]) * timings[i].seconds;
  }
  EXPECT_NEAR(schedule.seconds, all, 1e-9 * all) << "nothing runs beside anything";
  EXPECT_NEAR(std::accumulate(schedule.exposed.begin(), schedule.exposed.end(), 0.0), exchanges, 1e-9 * all);
  EXPECT_NEAR(schedule.kernels, all - exchanges, 1e-9 * all);
}

TEST_F(SharedMachine, TakesWhatIsBoundedAlikeForWhatWasNotMeasured) {
  mesh::Topology shared = training_.session.target;
  shared.chip.measured = {{"any product float32", {{1, 1e-9}}}};
  const std::vector<Timing> timings = timings_of(plan_, cost::Network(training_.session.mesh, shared));
  const std::vector<Task> tasks = tasks_of(plan_);
  int products = 0;
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    if (tasks[i].otherwise != "any product float32") continue;
    EXPECT_NEAR(timings[i].seconds, 1e-9 * tasks[i].work * tasks[i].times, 1e-12 * timings[i].seconds);
    ++products;
  }
  EXPECT_GT(products, 0);
}

// The rates of its file are those of all threads together.
TEST_F(SharedMachine, ReachesAShareOfItsOwnPeak) {
  mesh::Topology shared = target();
  shared.chip.bf16_flops_per_second = 1e12;
  const Forecast made = forecast(plan_, training_.session.layout, shared, {1e3, 1e9});
  EXPECT_DOUBLE_EQ(made.mfu.value(), 1e9 / made.seconds / 1e12);
  mesh::Topology chips = training_.session.target;
  chips.chip.bf16_flops_per_second = 1e12;
  const Forecast of_chips = forecast(plan_, training_.session.layout, chips, {1e3, 1e9});
  EXPECT_DOUBLE_EQ(of_chips.mfu.value(), 1e9 / 4 / of_chips.seconds / 1e12);
}

// All devices together have as many rows, whichever experts a router favours, also where an op was not measured.
TEST(SharedMachineWithSkew, TakesAsLongAsWithAnEvenRouter) {
  const test::Training training(kSpread + " router_skew=2");
  const plan::Plan& plan = training.trainer.plan();
  mesh::Topology shared = training.session.target;
  shared.chip.measured = {{"einsum float32", {{1, 1e-9}}}};
  const cost::Network network(plan.mesh, shared);
  const std::vector<Timing> even = timings_of(plan, network), drawn = timings_of(plan, network, RoutedRows(plan, Router::drawn));
  for (std::size_t i = 0; i < even.size(); ++i) EXPECT_EQ(drawn[i].seconds, even[i].seconds) << plan.instructions[i].path;
}

TEST_F(SharedMachine, IsMeasuredByTheSameTasks) {
  std::vector<run::Span> spans;
  test::Training training(kSpread);
  training.trainer.run_step(training.batch(), {.spans = &spans});
  const std::vector<measure::Sample> samples = measure::samples_of(plan_, spans);
  const std::vector<Task> tasks = tasks_of(plan_);
  double of_spans = 0, of_samples = 0;
  std::size_t next = 0;
  for (const run::Span& span : spans) {
    const Task& task = tasks[static_cast<std::size_t>(span.instruction)];
    if (task.name.empty() || task.work <= 0) continue;
    ASSERT_LT(next, samples.size());
    EXPECT_EQ(samples[next].name, task.name);
    of_spans += span.end - span.begin;
    of_samples += samples[next].seconds * task.times;
    ++next;
  }
  EXPECT_EQ(next, samples.size());
  EXPECT_NEAR(of_samples, of_spans, 1e-9 * of_spans) << "no time is lost";
}

TEST(Calibration, GathersSamplesOfAboutAsMuchWork) {
  const std::vector<measure::Sample> samples{
      {"a", "any", 100, 1}, {"a", "any", 102, 3}, {"a", "any", 1000, 8}, {"b", "any", 100, 5}};
  const MeasuredTimes points = measure::points_of(samples);
  ASSERT_EQ(points.at("a").size(), 2u);
  EXPECT_DOUBLE_EQ(points.at("a")[0].work, 101);
  EXPECT_DOUBLE_EQ(points.at("a")[0].seconds, 2);
  EXPECT_DOUBLE_EQ(points.at("a")[1].seconds, 8);
  EXPECT_DOUBLE_EQ(points.at("any")[0].seconds, 3) << "of both";
}

TEST(Calibration, WritesAFileThatIsRead) {
  const test::TemporaryFolder folder;
  const measure::MachineFacts facts{"a \"machine's\": 2 threads", "2026-01-02", 2, std::int64_t{1} << 34};
  measure::MachineRates rates;
  rates.float32.large = 1.5e11, rates.bfloat16.large = 2e11, rates.stream = 2e10;
  const std::string path = folder.write("machine.yml", measure::hardware_file(facts, rates, kTimes));
  const mesh::Topology machine = mesh::find_topology(path + ":4", 1);
  EXPECT_EQ(machine.chip.title, facts.title);
  EXPECT_EQ(machine.chip.bf16_flops_per_second, 2e11);
  EXPECT_EQ(machine.chip.usable_memory_bytes, std::int64_t{1} << 32) << "a device's share";
  EXPECT_EQ(mesh::find_topology(path + ":4", 2).chip.usable_memory_bytes, std::int64_t{1} << 31) << "slices share it too";
  ASSERT_TRUE(machine.chip.is_shared_machine());
  EXPECT_EQ(machine.chip.measured.size(), kTimes.size());
  EXPECT_DOUBLE_EQ(machine.chip.measured.at("einsum float32")[1].seconds, 1e-3);
}

}  // namespace
}  // namespace moesh::forecast
