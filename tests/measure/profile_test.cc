#include "measure/profile.h"

#include <numeric>

#include <gtest/gtest.h>

#include "measure/rates.h"
#include "tests/train/trainer_support.h"

namespace moesh::measure {
namespace {

struct Profiled {
  test::Training training;
  std::vector<forecast::Timing> timings;
  std::vector<run::Span> spans;

  explicit Profiled(const std::string& request)
      : training(request),
        timings(forecast::timings_of(training.trainer.plan(), cost::Network(training.session.mesh, training.session.target))) {
    training.trainer.run_step(training.batch(), {.spans = &spans});
  }
  const plan::Plan& plan() const { return training.trainer.plan(); }
};

// How many instructions a run executes: those outside of loops once, and those inside once per iteration.
std::int64_t all_runs(const plan::Plan& plan) {
  std::int64_t runs = 0;
  std::vector<std::int64_t> around{1};
  for (const plan::Instruction& instruction : plan.instructions) {
    using Kind = plan::Instruction::Kind;
    if (instruction.kind == Kind::loop) around.push_back(around.back() * instruction.count);
    else if (instruction.kind == Kind::end) around.pop_back();
    else runs += around.back();
  }
  return runs;
}

TEST(Spans, AreOfEveryRunOfEveryInstructionInOrder) {
  const Profiled made(test::kTinyModel + "compile_topology=cpu-4 ici_fsdp_parallelism=4 gradient_accumulation_steps=2");
  EXPECT_EQ(static_cast<std::int64_t>(made.spans.size()), all_runs(made.plan()));
  double now = 0;
  for (const run::Span& span : made.spans) {
    EXPECT_GE(span.begin, now);
    EXPECT_GE(span.end, span.begin);
    now = span.end;
  }
}

TEST(Profile, SumsUpAllThatRan) {
  const Profiled made(test::kTinyMixtral);
  for (const auto& times : {times_by_kind(made.plan(), made.timings, made.spans), times_by_instruction(made.plan(), made.timings, made.spans)}) {
    std::int64_t runs = 0;
    double seconds = 0, before = times.front().seconds;
    for (const KindTime& time : times) {
      runs += time.runs;
      seconds += time.seconds;
      EXPECT_LE(time.seconds, before) << "the longest first";
      before = time.seconds;
    }
    EXPECT_EQ(runs, static_cast<std::int64_t>(made.spans.size()));
    const double spent = std::accumulate(made.spans.begin(), made.spans.end(), 0.0,
                                         [](double sum, const run::Span& span) { return sum + span.end - span.begin; });
    EXPECT_NEAR(seconds, spent, 1e-9 + 1e-9 * spent);
  }
}

// Four devices that do a quarter of the work each count as much work as one device that does all of it.
TEST(Profile, CountsTheWorkOfAllDevices) {
  const auto flops = [](const std::string& more) {
    const Profiled made(test::kTinyModel + "per_device_batch_size=4 " + more);
    double sum = 0;
    for (const KindTime& time : times_by_kind(made.plan(), made.timings, made.spans)) sum += time.flops;
    return sum;
  };
  EXPECT_DOUBLE_EQ(flops("compile_topology=cpu-4 ici_fsdp_parallelism=4 per_device_batch_size=1"), flops(""));
}

TEST(Rates, AreThoseOfAMachineThatCalculates) {
  backend::Workers workers(2);
  const MachineRates rates = measure_rates(workers);
  for (const double rate : {rates.float32.registers, rates.float32.large, rates.bfloat16.registers, rates.bfloat16.large, rates.stream}) {
    EXPECT_GT(rate, 1e6);
  }
  EXPECT_EQ(&rates.of(DType::bfloat16), &rates.bfloat16);
  EXPECT_EQ(&rates.of(DType::float32), &rates.float32);
}

}  // namespace
}  // namespace moesh::measure
