// Tests how plans are run: inputs, state and outputs, and what is refused.
#include "run/program.h"

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/builder.h"
#include "plan/lower.h"
#include "tests/support.h"

namespace moesh::run {
namespace {

float& number(const Placed& value, std::size_t i) { return value.shards.front().as<float>()[i]; }

TEST(Program, ChecksWhatItIsGiven) {
  graph::Builder builder;
  builder.mark_result(graph::scale(builder.input("x", {2}, DType::float32, {""}), 2));
  const graph::Graph graph = builder.take();
  Workers workers(1);
  const auto pool = Pool::create();
  const auto message = [&](const std::vector<Array>& feeds) { return test::message_of([&] { evaluate(graph, feeds, workers); }); };
  const Array fits = pool->allocate({2}, DType::float32);
  EXPECT_EQ(message({fits}), "no error");
  EXPECT_EQ(message({}), "x: a program is run without a value for this");
  EXPECT_EQ(message({fits, fits}), "2 values for a program that takes 1");
  EXPECT_EQ(message({pool->allocate({3}, DType::float32)}), "x: a program takes float32 [2], it is given float32 [3]");
  EXPECT_EQ(message({pool->allocate({2}, DType::bfloat16)}), "x: a program takes float32 [2], it is given bfloat16 [2]");
}

// A graph with a state to which every run adds the input.
graph::Graph growing(std::int64_t size) {
  graph::Builder builder;
  const graph::Tensor sum = builder.state("sum", {size}, DType::float32, Labels(1));
  builder.keep(sum, graph::add(sum, builder.input("x", {size}, DType::float32, Labels(1))));
  return builder.take();
}

TEST(Program, KeepsStateFromRunToRunAndSharesIt) {
  Workers workers(1);
  const auto state = std::make_shared<State>();
  Program one(plan::lower(growing(2), mesh::Mesh({})), state, workers);
  Program other(plan::lower(growing(2), mesh::Mesh({})), state, workers);
  for (Program* program : {&one, &other, &one}) {
    number(program->input("x"), 0) = 1;
    number(program->input("x"), 1) = 10;
    program->run();
  }
  EXPECT_EQ(number(other.state("sum"), 0), 3);
  EXPECT_EQ(number(other.state("sum"), 1), 30);
  EXPECT_EQ(test::message_of([&] { Program(plan::lower(growing(3), mesh::Mesh({})), state, workers); }),
            "sum: float32[2] as it is kept, this program takes float32[3]\n"
            "  fix: make all programs for the same rows and cache slots, on one mesh");
}

TEST(Program, TakesNoKernelOfAnotherBackend) {
  const backend::Backend empty{"empty", [](graph::Op) -> backend::Kernel { return nullptr; }};
  Workers workers(1);
  EXPECT_EQ(test::message_of([&] { Program(plan::lower(growing(2), mesh::Mesh({})), std::make_shared<State>(), workers, {.backend = empty}); }),
            "add: the backend empty has no kernel for binary");
}

// If a loop throws in its second iteration, the next run starts with the first iteration again.
TEST(Program, BeginsAnewAfterAnError) {
  graph::Builder builder;
  const graph::Tensor x = builder.input("x", {2}, DType::float32, {""});
  const graph::Tensor w = builder.input("w", {3, 2}, DType::float32, {"", ""});
  const graph::Stack stack{"layers", {3}, {""}, 0};
  const std::vector<graph::Tensor> made = graph::repeat(
      builder, stack, {x}, {}, {[&](graph::Builder& body, const std::vector<graph::Tensor>& carried, const std::vector<graph::Tensor>&) {
        return std::vector<graph::Tensor>{graph::add(carried[0], body.slice_of(w, 1))};
      }});
  builder.mark_result(made[0], "y");
  Workers workers(1);
  Program program(plan::lower(builder.take(), mesh::Mesh({})), std::make_shared<State>(), workers);
  const auto feed = [&] {
    for (std::size_t i = 0; i < 2; ++i) number(program.input("x"), i) = 0;
    for (std::size_t i = 0; i < 6; ++i) number(program.input("w"), i) = static_cast<float>(i);
  };
  feed();
  int seen = 0;
  const auto stop = [&](const plan::Instruction& instruction, const std::vector<Placed>&) {
    if (instruction.op == graph::Op::binary && ++seen == 2) throw std::runtime_error("stop");
  };
  EXPECT_THROW(program.run({stop}), std::runtime_error);
  feed();
  program.run();
  EXPECT_EQ(number(program.output("y"), 0), 0 + 2 + 4);
  EXPECT_EQ(number(program.output("y"), 1), 1 + 3 + 5);
}

TEST(Program, EndsBeforeWhatAnObserverNames) {
  Workers workers(1);
  Program program(plan::lower(growing(2), mesh::Mesh({})), std::make_shared<State>(), workers);
  number(program.input("x"), 0) = 1;
  program.run({nullptr, nullptr, [](const plan::Instruction& instruction) { return instruction.op == graph::Op::binary; }});
  EXPECT_EQ(number(program.state("sum"), 0), 0);
  program.run();
  EXPECT_EQ(number(program.state("sum"), 0), 1);
}

// With checks of lifetimes, a buffer holds NaN before and after its lifetime, so that nothing in it can be taken for a number.
TEST(Program, FillsWhatIsNotNeededWithNaN) {
  graph::Builder builder;
  const graph::Tensor y = graph::scale(builder.input("x", {100}, DType::float32, {""}), 2);
  builder.mark_result(graph::slice(y, 0, 0, 2), "z");
  Workers workers(1);
  Program program(plan::lower(builder.take(), mesh::Mesh({})), std::make_shared<State>(), workers, {.checks_lifetimes = true});
  EXPECT_TRUE(std::isnan(number(program.input("x"), 0)));
  number(program.input("x"), 0) = 1;
  program.run();
  EXPECT_TRUE(std::isnan(number(program.input("x"), 99)));
  EXPECT_EQ(number(program.output("z"), 0), 2);
}

// A kernel that reaches into another owner's memory ends the test, because that memory is closed.
TEST(MemoryDeathTest, ThatIsClosedCannotBeTouched) {
  const Memory memory(100);
  *memory.at(7) = std::byte{1};
  memory.close(true);
  EXPECT_DEATH({ *memory.at(7) = std::byte{2}; }, "");
  memory.close(false);
  EXPECT_EQ(*memory.at(7), std::byte{1});
}

TEST(Memory, ThatIsNotThereIsAnError) {
  EXPECT_THAT(test::message_of([] { Memory(std::int64_t{1} << 62); }), testing::HasSubstr("out of memory: 4.00 EiB could not be had: "));
}

}  // namespace
}  // namespace moesh::run
