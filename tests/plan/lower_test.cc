// Tests how a graph is lowered to a plan: where values are made, and what is copied.
#include "plan/lower.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/text.h"
#include "graph/builder.h"
#include "graph/parse.h"
#include "graph/region.h"
#include "plan/print.h"
#include "tests/support.h"

namespace moesh::plan {
namespace {

using ::testing::ElementsAre;

// The printed instructions of a plan, without the comments after "#".
std::vector<std::string> instructions_of(const Plan& plan) {
  std::vector<std::string> lines;
  for (const std::string& line : split(to_text(plan), '\n')) {
    const std::string words(trim(line.substr(0, line.find("  #"))));
    if (!words.empty() && std::isdigit(static_cast<unsigned char>(words[0])) != 0 && words.find("bytes of state") == std::string::npos) {
      lines.push_back(words);
    }
  }
  return lines;
}

std::vector<std::string> lowered(const std::string& text) {
  const graph::ParsedGraph parsed = graph::parse_graph(text);
  return instructions_of(lower(parsed.graph, parsed.mesh.value_or(mesh::Mesh({}))));
}

TEST(Lower, MakesAResultInItsPort) {
  EXPECT_THAT(lowered("%0: float32[4] = input labels=(-)  # x\n"
                      "%1: float32[4] = unary %0 function=scale a=2  # y\n"
                      "%2: float32[2, 2] = reshape %1  # y\n"
                      "return %2 as y\n"),
              ElementsAre("0 b1 float32[4] = unary function=scale a=2 b0 float32[4]"));
}

TEST(Lower, WritesStateOverItsOldValue) {
  EXPECT_THAT(lowered("%0: float32[4] = input labels=(-)  # count\n"
                      "%1: float32[4] = unary %0 function=offset a=1  # more\n"
                      "return %1 as count\n"),
              ElementsAre("0 b0 float32[4] = unary function=offset a=1 b0 float32[4]"));
}

TEST(Lower, CopiesStateWhoseOldValueIsStillNeeded) {
  EXPECT_THAT(lowered("%0: float32[4] = input labels=(-)  # count\n"
                      "%1: float32[4] = unary %0 function=offset a=1  # more\n"
                      "%2: float32[4] = binary %0, %1 function=multiply  # both\n"
                      "return %1 as count, %2 as both\n"),
              ElementsAre("0 b2 float32[4] = unary function=offset a=1 b0 float32[4]",
                          "1 b1 float32[4] = binary function=multiply b0 float32[4], b2 float32[4]", "2 b0 float32[4] = copy b2 float32[4]"));
}

// The transposed value cannot be made in place: an element is read after another one is written.
TEST(Lower, CopiesWhatIsNotMadeElementByElement) {
  EXPECT_THAT(lowered("%0: float32[2, 2] = input labels=(-, -)  # m\n"
                      "%1: float32[2, 2] = transpose %0 order=[1, 0]  # t\n"
                      "return %1 as m\n"),
              ElementsAre("0 b1 float32[2, 2] = transpose order=[1, 0] b0 float32[2, 2]", "1 b0 float32[2, 2] = copy b1 float32[2, 2]"));
}

// A value that is not read any more gives its memory to the value made from it; a value that is read later keeps its memory.
TEST(Lower, MakesAValueWhereAnOperandEnds) {
  EXPECT_THAT(lowered("%0: float32[4] = input labels=(-)  # x\n"
                      "%1: float32[4] = unary %0 function=scale a=2  # a\n"
                      "%2: float32[4] = unary %1 function=offset a=1  # b\n"
                      "%3: float32[4] = binary %2, %1 function=multiply  # c\n"
                      "%4: float32[2, 2] = reshape %3  # d\n"
                      "%5: float32[2, 2] = transpose %4 order=[1, 0]  # y\n"
                      "return %5 as y\n"),
              ElementsAre("0 b2 float32[4] = unary function=scale a=2 b0 float32[4]",
                          "1 b3 float32[4] = unary function=offset a=1 b2 float32[4]",
                          "2 b3 float32[4] = binary function=multiply b3 float32[4], b2 float32[4]",
                          "3 b1 float32[2, 2] = transpose order=[1, 0] b3 float32[2, 2]"));
}

// The gradient of the logits takes the memory of the logits, which are the largest value of a step.
TEST(Lower, MakesTheGradientOfLogitsInTheirPlace) {
  EXPECT_THAT(lowered("%0: float32[1, 2, 8] = input labels=(-, -, -)  # x\n"
                      "%1: int32[1, 2] = input labels=(-, -)  # targets\n"
                      "%2: int32[1, 2] = input labels=(-, -)  # segments\n"
                      "%3: float32[] = input labels=()  # dsum\n"
                      "%4: float32[1, 2, 8] = unary %0 function=scale a=2  # logits\n"
                      "%5: float32[1, 2, 8] = cross_entropy_grad %4, %1, %2, %3  # dlogits\n"
                      "%6: float32[1, 8, 2] = transpose %5 order=[0, 2, 1]  # y\n"
                      "return %6 as y\n"),
              ElementsAre("0 b5 float32[1, 2, 8] = unary function=scale a=2 b0 float32[1, 2, 8]",
                          "1 b5 float32[1, 2, 8] = cross_entropy_grad b5 float32[1, 2, 8], b1 int32[1, 2], b2 int32[1, 2], b3 float32[]",
                          "2 b4 float32[1, 8, 2] = transpose order=[0, 2, 1] b5 float32[1, 2, 8]"));
}

TEST(Lower, SwapsStatesOverAThirdPlace) {
  EXPECT_THAT(lowered("%0: float32[4] = input labels=(-)  # a\n"
                      "%1: float32[4] = input labels=(-)  # b\n"
                      "return %1 as a, %0 as b\n"),
              ElementsAre("0 b2 float32[4] = copy b1 float32[4]", "1 b1 float32[4] = copy b0 float32[4]",
                          "2 b0 float32[4] = copy b2 float32[4]"));
}

// The old value of a state is copied to another state before the first one is overwritten, so that no temporary copy is needed.
TEST(Lower, HandsStatesOnInTurn) {
  EXPECT_THAT(lowered("%0: float32[4] = input labels=(-)  # a\n"
                      "%1: float32[4] = input labels=(-)  # b\n"
                      "%2: float32[4] = input labels=(-)  # c\n"
                      "%3: float32[4] = input labels=(-)  # d\n"
                      "return %3 as a, %0 as b, %1 as c\n"),
              ElementsAre("0 b2 float32[4] = copy b1 float32[4]", "1 b1 float32[4] = copy b0 float32[4]",
                          "2 b0 float32[4] = copy b3 float32[4]"));
}

constexpr const char* kLayers =
    "%0: float32[4] = input labels=(-)  # x\n"
    "%1: float32[3, 4] = parameter labels=(layers, -)  # w\n"
    "%2: float32[4], %3: float32[3, 4] = repeat %0, %1 sizes=[3] labels=(layers) carried=1 slices=[0] stacks=[0]  # layers\n"
    "  %0: float32[4] = input labels=(-)  # x\n"
    "  %1: float32[4] = input labels=(-)  # w\n"
    "  %2: float32[4] = binary %0, %1 function=multiply  # y\n"
    "  %3: float32[4] = unary %2 function=silu  # z\n"
    "  return %3, %2\n"
    "return %2 as y, %3 as all\n";

// The carried value has one buffer, and the slices of an iteration are read and made in place.
TEST(Lower, RunsALoopOnSlices) {
  EXPECT_THAT(lowered(kLayers),
              ElementsAre("0 b2 float32[4] = copy b0 float32[4]", "1 loop 3 times",
                          "2 b3 float32[4] @1 = binary function=multiply b2 float32[4], b1 float32[4] @1",
                          "3 b2 float32[4] = unary function=silu b3 float32[4] @1"));
}

// If each iteration stacks the carried value that it was given, this value is first copied to the stack and read from there, so that the
// next one can be made in the carried buffer.
TEST(Lower, KeepsACarriedValueBeforeTheNextIsMade) {
  EXPECT_THAT(lowered("%0: float32[4] = input labels=(-)  # x\n"
                      "%1: float32[4], %2: float32[3, 4] = repeat %0 sizes=[3] labels=(layers) carried=1 stacks=[0]  # layers\n"
                      "  %0: float32[4] = input labels=(-)  # x\n"
                      "  %1: float32[4] = unary %0 function=silu  # y\n"
                      "  %2: float32[4] = binary %0, %1 function=add  # z\n"
                      "  return %2, %0\n"
                      "return %1 as y, %2 as kept\n"),
              ElementsAre("0 b1 float32[4] = copy b0 float32[4]", "1 loop 3 times", "2 b2 float32[4] @1 = copy b1 float32[4]",
                          "3 b3 float32[4] = unary function=silu b2 float32[4] @1",
                          "4 b1 float32[4] = binary function=add b2 float32[4] @1, b3 float32[4]"));
}

// A value that is stacked in two shapes is stored once; if a stack has a buffer of its own, the value is copied there.
TEST(Lower, KeepsOnceWhatIsStackedTwice) {
  const std::string loop =
      "%0: float32[4] = input labels=(-)  # x\n"
      "%1: float32[4], %2: float32[3, 4], %3: float32[3, 2, 2], %4: float32[3, 4] = repeat %0 sizes=[3] labels=(layers) carried=1 "
      "stacks=[0, 0, 0]  # layers\n"
      "  %0: float32[4] = input labels=(-)  # x\n"
      "  %1: float32[4] = unary %0 function=silu  # y\n"
      "  %2: float32[2, 2] = reshape %1  # y\n"
      "  %3: float32[4] = unary %1 function=scale a=2  # z\n"
      "  return %3, %1, %2, %1\n"
      "%5: float32[3, 4] = unary %2 function=scale a=2  # a\n"
      "%6: float32[3, 2, 2] = unary %3 function=scale a=3  # b\n";
  EXPECT_THAT(lowered(loop + "%7: float32[3, 4] = binary %4, %5 function=add  # c\n"
                             "return %1 as y, %6 as b, %7 as c\n"),
              ElementsAre("0 b1 float32[4] = copy b0 float32[4]", "1 loop 3 times",
                          "2 b4 float32[4] @1 = unary function=silu b1 float32[4]",
                          "3 b1 float32[4] = unary function=scale a=2 b4 float32[4] @1",
                          "5 b5 float32[3, 4] = unary function=scale a=2 b4 float32[3, 4]",
                          "6 b2 float32[3, 2, 2] = unary function=scale a=3 b4 float32[3, 2, 2]",
                          "7 b3 float32[3, 4] = binary function=add b4 float32[3, 4], b5 float32[3, 4]"));
  EXPECT_THAT(lowered(loop + "return %1 as y, %4 as same, %5 as a, %6 as b\n"),
              ElementsAre("0 b1 float32[4] = copy b0 float32[4]", "1 loop 3 times",
                          "2 b5 float32[4] @1 = unary function=silu b1 float32[4]",
                          "3 b1 float32[4] = unary function=scale a=2 b5 float32[4] @1",
                          "4 b2 float32[4] @1 = copy b5 float32[4] @1",
                          "6 b3 float32[3, 4] = unary function=scale a=2 b5 float32[3, 4]",
                          "7 b4 float32[3, 2, 2] = unary function=scale a=3 b5 float32[3, 2, 2]"));
}

// The parameter is sliced along a middle dim, so a slice is not dense: it is copied out, and its update is copied back to its place.
TEST(Lower, CopiesSlicesThatAreNotDense) {
  EXPECT_THAT(lowered("%0: float32[4, 3, 2] = parameter labels=(-, layers, -)  # w\n"
                      "%1: float32[4, 3, 2] = repeat %0 sizes=[3] labels=(layers) slices=[1] stacks=[1] reverse=true  # layers\n"
                      "  %0: float32[4, 2] = input labels=(-, -)  # w\n"
                      "  %1: float32[4, 2] = unary %0 function=silu  # y\n"
                      "  return %1\n"
                      "return %1 as w\n"),
              ElementsAre("0 loop 3 times backwards", "1 b1 float32[4, 2] = copy b0 float32[4, 2] @0 dim 1 of 3 slices",
                          "2 b2 float32[4, 2] = unary function=silu b1 float32[4, 2]",
                          "3 b0 float32[4, 2] @0 dim 1 of 3 slices = copy b2 float32[4, 2]"));
}

// Each slice of the state is read before it is written, in the same iteration.
TEST(Lower, UpdatesSlicesOfStateInPlace) {
  EXPECT_THAT(lowered("%0: float32[3, 4] = parameter labels=(layers, -)  # w\n"
                      "%1: float32[3, 4] = repeat %0 sizes=[3] labels=(layers) slices=[0] stacks=[0]  # layers\n"
                      "  %0: float32[4] = input labels=(-)  # w\n"
                      "  %1: float32[4] = unary %0 function=silu  # y\n"
                      "  return %1\n"
                      "return %1 as w\n"),
              ElementsAre("0 loop 3 times", "1 b0 float32[4] @0 = unary function=silu b0 float32[4] @0"));
}

// If a loop is the last to read a slice, the slice gives its memory to the value that an iteration makes from it, in a region too. A stack
// that is read after the loop keeps its memory.
TEST(Lower, MakesAValueWhereASliceEnds) {
  const std::string stack =
      "%0: float32[4] = input labels=(-)  # x\n"
      "%1: float32[4], %2: float32[3, 4] = repeat %0 sizes=[3] labels=(layers) carried=1 stacks=[0]  # layers\n"
      "  %0: float32[4] = input labels=(-)  # x\n"
      "  %1: float32[4] = unary %0 function=silu  # y\n"
      "  return %1, %1\n"
      "%3: float32[4] = repeat %1, %2 sizes=[3] labels=(layers) carried=1 slices=[0] reverse=true  # back\n"
      "  %0: float32[4] = input labels=(-)  # x\n"
      "  %1: float32[4] = input labels=(-)  # y\n";
  const std::string op = "  %2: float32[4] = unary %1 function=scale a=3  # s\n";
  const std::string region =
      "  %2: float32[4] = region %1 strategy=local mesh={data=1} operands={[-]} results={[-]}  # r\n"
      "    %0: float32[4] = input labels=(-)  # y\n"
      "    %1: float32[4] = unary %0 function=scale a=3  # s\n"
      "    return %1\n";
  const std::string rest =
      "  %3: float32[4] = einsum %2, %0 equation=\"a,b->a\"  # e\n"
      "  return %3\n";
  for (const std::string& body : {op, region}) {
    EXPECT_THAT(lowered(stack + body + rest + "return %3 as z\n"),
                testing::Contains("7 b3 float32[4] @6 = unary function=scale a=3 b3 float32[4] @6"))
        << body;
    EXPECT_THAT(lowered(stack + body + rest + "%4: float32[3, 4] = unary %2 function=silu  # u\nreturn %3 as z, %4 as u\n"),
                testing::Contains("7 b5 float32[4] = unary function=scale a=3 b4 float32[4] @6"))
        << body;
  }
}

TEST(Lower, RefusesStateThatComesBackInAnotherLayout) {
  EXPECT_EQ(test::message_of([] {
              lowered("mesh {x=2}\n"
                      "%0: float32[4] as [(x)] = input labels=(-)  # count\n"
                      "%1: float32[4] as [-] = reshard %0 kind=all-gather axes=(x) from=0  # all\n"
                      "return %1 as count\n");
            }),
            "count: what is kept from run to run is handed back in another shape, type or layout\n  fix: lay both out alike");
}

TEST(Lower, SaysThatStagesAreNotRun) {
  graph::Builder builder;
  const graph::Tensor x = graph::fill(builder, 1, {4}, DType::float32);
  builder.mark_result(builder.add_one(graph::Op::stage_state, "state", {x}, graph::StageStateOf{}, {4}, DType::float32));
  const graph::Graph graph = builder.take();
  EXPECT_EQ(test::message_of([&] { lower(graph, mesh::Mesh({})); }),
            "state: pipeline stages are laid out but not run yet\n  fix: ici_pipeline_parallelism=1");
}

// An op over a group of devices that was not split: its kernel would have to reach into the memory of other devices.
TEST(Lower, TakesNoKernelOverSeveralDevices) {
  graph::Builder builder = graph::Builder::of_region("body");
  const graph::Tensor x = builder.shard_input("x", {2, 3}, DType::float32, {0});
  const graph::Tensor order = builder.shard_input("order", {2}, DType::int32, {0});
  const graph::Tensor sizes = builder.shard_input("sizes", {1}, DType::int32, {0});
  const mesh::Mesh mesh({{"x", 4, 1}});
  builder.mark_result(graph::fetch_rows(x, {order, sizes, {}}, graph::group_of({0}, mesh)));
  const graph::Graph graph = builder.take();
  EXPECT_EQ(test::message_of([&] { lower(graph, mesh); }),
            "body/fetch: fetch_rows over 4 devices runs as collectives and kernels of one device each\n"
            "  fix: partition the graph first");
}

graph::Graph cache_that_is_written(bool is_read_later) {
  graph::Builder builder;
  const graph::Tensor cache = builder.state("cache", {1, 4, 1}, DType::float32, Labels(3));
  const graph::Tensor rows = builder.input("rows", {1, 1, 1}, DType::float32, Labels(3));
  const graph::Tensor slots = builder.input("slots", {1, 1}, DType::int32, Labels(2));
  const graph::Tensor written = graph::cache_write(cache, rows, slots);
  builder.keep(cache, written);
  if (is_read_later) builder.mark_result(graph::add(written, cache), "sum");
  return builder.take();
}

TEST(Lower, WritesRowsIntoTheCacheWhereItLies) {
  EXPECT_THAT(instructions_of(lower(cache_that_is_written(false), mesh::Mesh({}))),
              ElementsAre("0 b0 float32[1, 4, 1] = cache_write b0 float32[1, 4, 1], b1 float32[1, 1, 1], b2 int32[1, 1]"));
}

TEST(Lower, LeavesACacheAloneThatIsStillRead) {
  EXPECT_THAT(instructions_of(lower(cache_that_is_written(true), mesh::Mesh({}))),
              ElementsAre("0 b4 float32[1, 4, 1] = cache_write b0 float32[1, 4, 1], b1 float32[1, 1, 1], b2 int32[1, 1]",
                          "1 b3 float32[1, 4, 1] = binary function=add b4 float32[1, 4, 1], b0 float32[1, 4, 1]",
                          "2 b0 float32[1, 4, 1] = copy b4 float32[1, 4, 1]"));
}

}  // namespace
}  // namespace moesh::plan
