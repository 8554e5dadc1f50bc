// When the instructions of small plans run, given their times.
#include "forecast/schedule.h"

#include <gtest/gtest.h>

#include "tests/support.h"

namespace moesh::forecast {
namespace {

using plan::Instruction;
using plan::InstructionId;
using plan::ViewId;

// A plan whose values have 64 bytes each, in separate buffers.
class Steps : public ::testing::Test {
 protected:
  ViewId value(plan::Lasts lasts = plan::Lasts::as_output) {
    plan_.buffers.push_back({"", lasts, 64, {}});
    plan_.views.push_back(
        {static_cast<plan::BufferId>(plan_.buffers.size() - 1), {16}, DType::float32, {{{}}, {}}, {}, 0, 1, -1});
    return static_cast<ViewId>(plan_.views.size() - 1);
  }

  void add(Instruction::Kind kind, double seconds, std::vector<ViewId> operands, std::vector<ViewId> results,
           std::size_t link = 0) {
    Instruction instruction;
    instruction.kind = kind;
    instruction.operands = std::move(operands);
    instruction.results = std::move(results);
    plan_.instructions.push_back(instruction);
    Timing timing;
    timing.seconds = seconds;
    if (kind == Instruction::Kind::collective) timing.sent.emplace();
    if (kind == Instruction::Kind::collective) timing.links = {link};
    timings_.push_back(timing);
  }
  void kernel(double seconds, std::vector<ViewId> operands, std::vector<ViewId> results) {
    add(Instruction::Kind::kernel, seconds, std::move(operands), std::move(results));
  }
  void collective(double seconds, ViewId operand, ViewId result, std::size_t link = 0) {
    add(Instruction::Kind::collective, seconds, {operand}, {result}, link);
  }
  InstructionId loop(std::int64_t count) {
    add(Instruction::Kind::loop, 0, {}, {});
    plan_.instructions.back().count = count;
    return static_cast<InstructionId>(plan_.instructions.size() - 1);
  }
  void end(InstructionId loop) {
    add(Instruction::Kind::end, 0, {}, {});
    plan_.instructions.back().other = loop;
    plan_.instructions[static_cast<std::size_t>(loop)].other =
        static_cast<InstructionId>(plan_.instructions.size() - 1);
  }

  Schedule schedule() const { return schedule_of(plan_, plan::device_arena(plan_), timings_); }

  plan::Plan plan_;
  std::vector<Timing> timings_;
  const ViewId input_ = value(plan::Lasts::from_run_to_run);
};

TEST_F(Steps, KernelsRunOneAfterTheOther) {
  kernel(1, {input_}, {value()});
  kernel(2, {input_}, {value()});
  EXPECT_DOUBLE_EQ(schedule().seconds, 3);
  EXPECT_DOUBLE_EQ(schedule().kernels, 3);
}

// The collective needs the first kernel's result, and the third kernel needs the collective's result.
TEST_F(Steps, ACollectiveRunsBesideKernelsThatDoNotNeedIt) {
  const ViewId made = value(), sent = value();
  kernel(1, {input_}, {made});
  collective(5, made, sent);
  kernel(2, {input_}, {value()});
  kernel(1, {sent}, {value()});
  const Schedule s = schedule();
  EXPECT_DOUBLE_EQ(s.seconds, 1 + 5 + 1);
  EXPECT_DOUBLE_EQ(s.kernels, 4);
  EXPECT_DOUBLE_EQ(s.exposed[1], 3);
  EXPECT_DOUBLE_EQ(s.critical[0] + s.critical[1] + s.critical[2] + s.critical[3], 7);
  EXPECT_DOUBLE_EQ(s.critical[2], 0);
}

TEST_F(Steps, WhatNobodyWaitsForIsExposedAtTheEndOnly) {
  kernel(1, {input_}, {value()});
  collective(4, input_, value());
  EXPECT_DOUBLE_EQ(schedule().seconds, 4);
  EXPECT_DOUBLE_EQ(schedule().exposed[1], 3);
}

TEST_F(Steps, CollectivesShareTheirLinkAndNoOther) {
  const ViewId a = value(), b = value();
  collective(2, input_, a, 0);
  collective(3, input_, b, 0);
  kernel(1, {a, b}, {value()});
  EXPECT_DOUBLE_EQ(schedule().seconds, 2 + 3 + 1);
  EXPECT_DOUBLE_EQ(schedule().exposed[0], 2);
  EXPECT_DOUBLE_EQ(schedule().exposed[1], 3);
  timings_[1].links = {1};
  EXPECT_DOUBLE_EQ(schedule().seconds, 3 + 1);
}

// The gather of the next iteration cannot begin while the kernel of this iteration reads the same memory, so an iteration takes 2 + 3.
TEST_F(Steps, MemoryThatIsStillReadIsNotWrittenTo) {
  const ViewId weights = value(), made = value();
  const InstructionId layers = loop(10);
  collective(2, input_, weights);
  kernel(3, {weights}, {made});
  end(layers);
  const Schedule s = schedule();
  EXPECT_DOUBLE_EQ(s.seconds, 10 * 5);
  EXPECT_DOUBLE_EQ(s.exposed[1], 10 * 2);
}

// The second kernel does not read the gathered value, so the next gather runs beside it.
TEST_F(Steps, AGatherBeginsWhenItsPlaceIsFree) {
  const ViewId weights = value(), made = value();
  const InstructionId layers = loop(10);
  collective(2, input_, weights);
  kernel(3, {weights}, {made});
  kernel(4, {input_}, {value()});
  end(layers);
  const Schedule s = schedule();
  EXPECT_DOUBLE_EQ(s.seconds, 2 + 10 * 7);
  EXPECT_DOUBLE_EQ(s.exposed[1], 2);
}

// Following only three iterations of a loop gives the same time as following all of them.
TEST_F(Steps, LoopsAreCountedWithoutUnrolling) {
  const auto seconds_of = [&](std::int64_t count) {
    plan_.instructions.clear();
    timings_.clear();
    const InstructionId outer = loop(count);
    kernel(1, {input_}, {value()});
    const InstructionId inner = loop(count);
    const ViewId sent = value();
    collective(2, input_, sent);
    kernel(3, {sent}, {value()});
    end(inner);
    end(outer);
    return schedule().seconds;
  };
  // The first gather of each inner loop runs beside the kernel before it.
  for (const double n : {1.0, 3.0, 7.0, 1000.0}) {
    EXPECT_NEAR(seconds_of(static_cast<std::int64_t>(n)), n * (1 + n * 5) - n, 1e-9 * n * n) << n;
  }
}

TEST_F(Steps, ALongLoopTakesNoLongerToPlan) {
  const InstructionId layers = loop(std::int64_t{1} << 40);
  kernel(1, {input_}, {value()});
  end(layers);
  EXPECT_DOUBLE_EQ(schedule().seconds, static_cast<double>(std::int64_t{1} << 40));
}

}  // namespace
}  // namespace moesh::forecast
