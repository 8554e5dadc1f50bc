// Tests every rule of plans: a plan that breaks the rule is refused with a message that says where, and a sound plan is not.
#include "plan/verify.h"

#include <functional>
#include <string>

#include <gtest/gtest.h>

#include "graph/parse.h"
#include "plan/lower.h"
#include "tests/support.h"

namespace moesh::plan {
namespace {

using Kind = Instruction::Kind;

// A sound plan: state w; input x; a loop of three iterations that multiplies x by slices of w; a collective; a copy; an output.
const Plan& sound() {
  static const Plan plan = [] {
    const graph::ParsedGraph parsed = graph::parse_graph(
        "mesh {data=2 fsdp=2}\n"
        "%0: float32[4] as [(fsdp)] = input labels=(-)  # x\n"
        "%1: float32[3, 4] as [-, (fsdp)] = parameter labels=(layers, -)  # w\n"
        "%2: float32[4] as [(fsdp)], %3: float32[3, 4] as [-, (fsdp)] = repeat %0, %1 sizes=[3] labels=(layers) carried=1 "
        "slices=[0] stacks=[0]  # layers\n"
        "  %0: float32[4] as [(fsdp)] = input labels=(-)  # x\n"
        "  %1: float32[4] as [(fsdp)] = input labels=(-)  # w\n"
        "  %2: float32[4] as [(fsdp)] = binary %0, %1 function=multiply  # y\n"
        "  %3: float32[4] as [(fsdp)] = unary %2 function=silu  # z\n"
        "  return %3, %3\n"
        "%4: float32[4] as [-] = reshard %2 kind=all-gather axes=(fsdp) from=0  # gathered\n"
        "%5: float32[4] as [-] = unary %4 function=silu  # y\n"
        "return %5 as y, %3 as w\n");
    return lower(parsed.graph, *parsed.mesh);
  }();
  return plan;
}

// Instructions of the plan above.
enum : InstructionId { kFirstCopy, kLoop, kMultiply, kSilu, kSecondCopy, kEnd, kGather, kLast };

std::string broken(const std::function<void(Plan&)>& change) {
  Plan plan = sound();
  change(plan);
  return broken_rule(plan);
}

Instruction& at(Plan& plan, InstructionId id) { return plan.instructions.at(static_cast<std::size_t>(id)); }
View& view(Plan& plan, ViewId id) { return plan.views.at(static_cast<std::size_t>(id)); }
View& operand(Plan& plan, InstructionId id, std::size_t i = 0) { return view(plan, at(plan, id).operands.at(i)); }
View& result(Plan& plan, InstructionId id) { return view(plan, at(plan, id).results.at(0)); }

TEST(Verify, FindsNothingInAPlanThatWasLowered) {
  Plan plan = sound();
  EXPECT_EQ(broken_rule(plan), "");
  ASSERT_EQ(plan.instructions.size(), 8u);
  EXPECT_EQ(at(plan, kFirstCopy).kind, Kind::copy);
  EXPECT_EQ(at(plan, kLoop).kind, Kind::loop);
  EXPECT_EQ(at(plan, kSecondCopy).kind, Kind::copy);
  EXPECT_EQ(at(plan, kGather).kind, Kind::collective);
  EXPECT_EQ(at(plan, kLast).kind, Kind::kernel);
}

TEST(Verify, FailsWithTheRule) {
  Plan plan = sound();
  plan.results[0] = 99;
  EXPECT_EQ(test::message_of([&] { verify(plan); }),
            "lowering: the plan breaks a rule: result 0: view 99 is neither a state nor an output\n  fix: report this");
}

TEST(Verify, HoldsBuffersToSizesAndAxes) {
  EXPECT_EQ(broken([](Plan& p) { p.buffers[0].bytes = -4; }), "buffer 0 (x): -4 bytes");
  EXPECT_EQ(broken([](Plan& p) { p.buffers[0].bytes = std::int64_t{1} << 62; }), "the buffers: more than 1e18 bytes");
  EXPECT_EQ(broken([](Plan& p) { p.buffers[0].distinct = {2}; }), "buffer 0 (x): axis 2 of a mesh that has 2");
  EXPECT_EQ(broken([](Plan& p) { p.buffers[0].distinct = {1, 1}; }), "buffer 0 (x): an axis stands there twice");
  EXPECT_EQ(broken([](Plan& p) {
              p.buffers[0].distinct = {1, 0};
            }),
            "buffer 0 (x): its distinct axes are not in the mesh's order");
}

TEST(Verify, HoldsViewsToTheirBuffersShapesAndSpecs) {
  EXPECT_EQ(broken([](Plan& p) { p.views[0].buffer = 9; }), "view 0: buffer 9 of 6");
  EXPECT_EQ(broken([](Plan& p) { p.views[0].buffer = -1; }), "view 0: buffer -1 of 6");
  EXPECT_EQ(broken([](Plan& p) { p.views[0].shape = {-4}; }), "view 0: its shape is [-4]");
  EXPECT_EQ(broken([](Plan& p) { p.views[0].spec.dims.emplace_back(); }), "view 0: its spec has 2 dims, its shape [4] has 1");
  EXPECT_EQ(broken([](Plan& p) { p.views[0].spec.dims[0] = {7}; }), "view 0: axis 7 of a mesh that has 2");
  EXPECT_EQ(broken([](Plan& p) { p.views[0].spec.partial = {1}; }), "view 0: an axis stands there twice");
  EXPECT_EQ(broken([](Plan& p) { p.views[0].spec.dims[0] = {0}; }),
            "view 0: its shards differ along (data), those of buffer 0 (x) along (fsdp)");
  EXPECT_EQ(broken([](Plan& p) { p.views[0].split = 2; }), "view 0: split behind dim 2 of 1");
  EXPECT_EQ(broken([](Plan& p) { p.views[0].stacked = 0; }), "view 0: one of 0 slices");
}

TEST(Verify, HoldsRowsToTheirCounts) {
  EXPECT_EQ(broken([](Plan& p) { p.views[0].rows = 99; }).substr(0, 40), "view 0: its rows are counted by view 99 ");
  EXPECT_EQ(broken([](Plan& p) { p.views[0].rows = 1; }), "view 0: its rows are counted by view 1, which is no vector of counts");
  EXPECT_EQ(broken([](Plan& p) {
              p.views[0].rows = 0;
              p.views[0].dtype = DType::int32;
            }),
            "view 0: its rows are counted by view 0, which is no vector of counts");
  EXPECT_EQ(broken([](Plan& p) {
              p.views[0] = {0, {}, DType::float32, {{}, {1}, {}}, {}, 0, 1, 1};
            }),
            "view 0: a scalar has no rows to be counted");
}

TEST(Verify, HoldsLoopsToTheirEnds) {
  const std::string loop = "instruction 1 (loop of layers): ", end = "instruction 5 (end of layers): ";
  EXPECT_EQ(broken([](Plan& p) { at(p, kLoop).count = 0; }), loop + "it runs 0 times");
  EXPECT_EQ(broken([](Plan& p) { at(p, kLoop).other = kMultiply; }),
            loop + "its end is to be instruction 2, which is no end of it");
  EXPECT_EQ(broken([](Plan& p) { at(p, kLoop).other = 99; }), loop + "its end is to be instruction 99, which is no end of it");
  EXPECT_EQ(broken([](Plan& p) { at(p, kLast).kind = Kind::end; }),
            "instruction 7 (end of y): it does not end the loop that it stands in");
  EXPECT_EQ(broken([](Plan& p) { std::swap(at(p, kLoop), at(p, kEnd)); }),
            "instruction 1 (end of layers): it does not end the loop that it stands in");
  EXPECT_EQ(broken([](Plan& p) {
              at(p, kLast) = {Kind::loop, graph::Op::repeat, "more", {}, {}, {}, {}, 2, false, kEnd};
              at(p, kEnd).other = kLast;
              at(p, kLoop) = {};
            }),
            "instruction 5 (end of layers): it does not end the loop that it stands in");
  EXPECT_EQ(broken([](Plan& p) { at(p, kLast).count = 2; }),
            "instruction 7 (unary of y): only a loop has a count, a direction and an end");
  EXPECT_EQ(broken([](Plan& p) { at(p, kLoop).operands = {0}; }), loop + "it has operands or results");
  EXPECT_EQ(broken([](Plan& p) { at(p, kEnd).results = {0}; }), end + "it has operands or results");
  // Two loops, of which the outer one ends first.
  Plan crossed;
  for (const InstructionId other : {2, 3, 0, 1}) {
    const bool is_loop = crossed.instructions.size() < 2;
    crossed.instructions.push_back({is_loop ? Kind::loop : Kind::end, graph::Op::repeat, "l", {}, {}, {}, {}, 1, false, other});
  }
  EXPECT_EQ(broken_rule(crossed), "instruction 2 (end of l): it does not end the loop that it stands in");
  crossed.instructions.resize(1);
  EXPECT_EQ(broken_rule(crossed), "instruction 0 (loop of l): its end is to be instruction 2, which is no end of it");
}

TEST(Verify, HoldsViewsToTheirBuffersInEveryIteration) {
  EXPECT_EQ(broken([](Plan& p) { p.buffers[0].bytes = 7; }), "view 0: it reaches to byte 8 of buffer 0 (x), which has 7");
  EXPECT_EQ(broken([](Plan& p) { at(p, kLoop).count = 4; }).substr(5), [] {
    const Plan& p = sound();
    return std::to_string(p.instructions[kMultiply].operands[1]) + ": it reaches to byte 32 of buffer 1 (w), which has 24";
  }());
  EXPECT_NE(broken([](Plan& p) {
              operand(p, kMultiply, 1).advances[0].by = 2;
            }).find(": it reaches to byte 40 of buffer 1 (w), which has 24"),
            std::string::npos);
  EXPECT_NE(broken([](Plan& p) { operand(p, kMultiply, 1).advances[0].by = 0; }).find(": it moves on by 0"), std::string::npos);
  EXPECT_NE(broken([](Plan& p) {
              operand(p, kMultiply, 1).advances[0].loop = kMultiply;
            }).find(": it moves on with instruction 2, which is no loop"),
            std::string::npos);
  // A view of one of three slices along the second dim: [2, 2] floats of [2, 3, 2].
  Plan plan;
  plan.buffers.push_back({"w", Lasts::from_run_to_run, 48, {}});
  plan.views.push_back({0, {2, 2}, DType::float32, {}, {}, 1, 3, -1});
  plan.views.push_back({0, {2, 3, 2}, DType::float32, {}, {}, 0, 1, -1});
  plan.ports.push_back({Port::Kind::state, "w", 1});
  EXPECT_EQ(broken_rule(plan), "");
  plan.views[0].stacked = 6;
  EXPECT_EQ(broken_rule(plan), "view 0: it reaches to byte 56 of buffer 0 (w), which has 48");
}

TEST(Verify, HoldsPortsToTheirBuffers) {
  EXPECT_EQ(broken([](Plan& p) { p.ports[0].view = 99; }).substr(0, 21), "the input 'x': view 9");
  EXPECT_EQ(broken([](Plan& p) { p.ports.push_back(p.ports[0]); }), "the input 'x': there are two of that name");
  EXPECT_EQ(broken([](Plan& p) { p.ports[0].kind = Port::Kind::state; }), "the state 'x': buffer 0 (x) lasts as input");
  EXPECT_EQ(broken([](Plan& p) {
              p.ports.push_back(p.ports[0]);
              p.ports.back().name = "z";
            }),
            "the input 'z': buffer 0 (x) has another port");
  EXPECT_EQ(broken([](Plan& p) { p.ports.erase(p.ports.begin()); }), "buffer 0 (x): a buffer that lasts as input without a port");
  EXPECT_EQ(broken([](Plan& p) { p.ports[1].view = at(p, kMultiply).operands[1]; }), "the state 'w': it is a slice of a value");
  EXPECT_EQ(broken([](Plan& p) { p.ports[1].first = -1; }), "the state 'w': dim -1 of 2 comes first");
  EXPECT_EQ(broken([](Plan& p) { p.ports[1].first = 2; }), "the state 'w': dim 2 of 2 comes first");
}

TEST(Verify, HoldsInstructionsToTheViewsThatAreThere) {
  EXPECT_EQ(broken([](Plan& p) { at(p, kLast).operands[0] = 99; }).substr(0, 37), "instruction 7 (unary of y): view 99 o");
  EXPECT_EQ(broken([](Plan& p) { at(p, kLast).operands[0] = at(p, kMultiply).operands[1]; }),
            "instruction 7 (unary of y): view " + std::to_string(sound().instructions[kMultiply].operands[1]) +
                " moves on with the loop of instruction 1, which does not stand around it");
}

TEST(Verify, HoldsKernelsToWhatTheirOpsTakeAndGive) {
  const std::string last = "instruction 7 (unary of y): ";
  EXPECT_EQ(broken([](Plan& p) { at(p, kLast).op = graph::Op::input; }), "instruction 7 (input of y): input is no kernel");
  EXPECT_EQ(broken([](Plan& p) { at(p, kLast).results.clear(); }), last + "it makes nothing");
  EXPECT_EQ(broken([](Plan& p) { at(p, kLast).operands.push_back(0); }), last + "unary does not fit its operands and results");
  EXPECT_EQ(broken([](Plan& p) { at(p, kLast).attributes = graph::BinaryOf{graph::Binary::add}; }),
            last + "unary does not fit its operands and results");
  EXPECT_EQ(broken([](Plan& p) { result(p, kLast).shape = {3}; }), last + "silu does not fit its operands and results");
  EXPECT_EQ(broken([](Plan& p) { at(p, kLast).kind = Kind::collective; }), last + "it is no collective");
  EXPECT_EQ(broken([](Plan& p) { at(p, kGather).kind = Kind::kernel; }),
            "instruction 6 (reshard of gathered): it is a collective");
  EXPECT_EQ(broken([](Plan& p) { std::get<graph::ReshardOf>(at(p, kGather).attributes).axes = {5}; }),
            "instruction 6 (reshard of gathered): axis 5 of a mesh that has 2");
  EXPECT_EQ(broken([](Plan& p) { at(p, kLoop).attributes = graph::UnaryOf{graph::Unary::silu}; }),
            "instruction 1 (loop of layers): only a kernel or a collective has attributes");
  EXPECT_EQ(broken([](Plan& p) {
              at(p, kMultiply).kind = Kind::copy;
              at(p, kMultiply).attributes = {};
            }),
            "instruction 2 (copy of y): a copy has one operand and one result");
  EXPECT_EQ(broken([](Plan& p) { at(p, kFirstCopy).operands[0] = 1; }),
            "instruction 0 (copy of layers): a copy is of another shape, type or layout");
}

TEST(Verify, HoldsKernelsToDenseViews) {
  const std::string words = broken([](Plan& p) {
    View& slice = operand(p, kMultiply, 1);
    slice.split = 1;
    slice.shape = {1, 4};
    slice.spec.dims.insert(slice.spec.dims.begin(), sharding::AxisList{});
  });
  EXPECT_EQ(words,
            "instruction 2 (binary of y): view " + std::to_string(sound().instructions[kMultiply].operands[1]) + " is not dense");
}

TEST(Verify, HoldsKernelsToTheShardsOfTheirResults) {
  EXPECT_EQ(broken([](Plan& p) { at(p, kLast).operands[0] = 0; }),
            "instruction 7 (unary of y): shards of view 0 differ along (fsdp), those of its first result only along ()");
  // Two results, of which one is a partial sum.
  Plan plan;
  plan.mesh = mesh::Mesh({{"fsdp", 2, 1}});
  for (const char* name : {"x", "scale", "dy", "dx", "dscale"}) {
    const bool is_scale = std::string(name).ends_with("scale");
    plan.buffers.push_back({name, plan.buffers.size() < 3 ? Lasts::as_input : Lasts::as_output, 16,
                            is_scale ? sharding::AxisList{} : sharding::AxisList{0}});
    plan.views.push_back({static_cast<BufferId>(plan.buffers.size() - 1),
                          is_scale ? Shape{4} : Shape{2, 4},
                          DType::float32,
                          {is_scale ? std::vector<sharding::AxisList>{{}} : std::vector<sharding::AxisList>{{0}, {}}, {}, {}},
                          {},
                          0,
                          1,
                          -1});
    plan.ports.push_back(
        {plan.ports.size() < 3 ? Port::Kind::input : Port::Kind::output, name, static_cast<ViewId>(plan.views.size() - 1)});
  }
  plan.instructions.push_back({Kind::kernel, graph::Op::rms_norm_grad, "n", graph::Phase::backward, graph::RmsNormOf{}, {0, 1, 2}, {3, 4}, 1, false, -1});
  EXPECT_EQ(broken_rule(plan), "instruction 0 (rms_norm_grad of n): shards of its results differ along different axes");
  plan.buffers[4].distinct = {0};
  plan.views[4].spec.partial = {0};
  EXPECT_EQ(broken_rule(plan), "");
}

TEST(Verify, HoldsResultsToPlacesOfTheirOwn) {
  // A softmax may not be made in the memory of its operand; an elementwise op may.
  EXPECT_EQ(broken([](Plan& p) {
              at(p, kLast).op = graph::Op::softmax;
              at(p, kLast).attributes = {};
              at(p, kLast).results = at(p, kLast).operands;
            }),
            "instruction 7 (softmax of y): result 0 is made in buffer 5 (gathered), where operand 0 lies");
  EXPECT_EQ(broken([](Plan& p) { at(p, kFirstCopy).results = at(p, kFirstCopy).operands; }),
            "instruction 0 (copy of layers): result 0 is made in buffer 0 (x), where operand 0 lies");
  // The op is elementwise, but its result is another slice of the stack that it reads.
  const std::string words = broken([](Plan& p) {
    p.views.push_back(operand(p, kMultiply, 1));
    p.views.back().advances.clear();
    at(p, kMultiply).results[0] = static_cast<ViewId>(p.views.size() - 1);
  });
  EXPECT_EQ(words, "instruction 2 (binary of y): result 0 is made in buffer 1 (w), where operand 1 lies");
  Plan plan;
  plan.buffers.push_back({"x", Lasts::as_input, 16, {}});
  plan.buffers.push_back({"y", Lasts::as_output, 16, {}});
  plan.views.push_back({0, {4}, DType::float32, {}, {}, 0, 1, -1});
  plan.views.push_back({1, {4}, DType::float32, {}, {}, 0, 1, -1});
  plan.ports = {{Port::Kind::input, "x", 0}, {Port::Kind::output, "y", 1}};
  plan.instructions.push_back(
      {Kind::kernel, graph::Op::momentum_update, "m", graph::Phase::update, graph::MomentumOf{}, {0, 0, 0}, {1, 1}, 1, false, -1});
  EXPECT_EQ(broken_rule(plan), "instruction 0 (momentum_update of m): two results lie in buffer 1 (y)");
}

TEST(Verify, HoldsReadsToWhatIsWritten) {
  EXPECT_EQ(broken([](Plan& p) { std::swap(at(p, kGather), at(p, kLast)); }),
            "instruction 6 (unary of y): buffer 5 (gathered) is read, and nothing was written to it");
  EXPECT_EQ(broken([](Plan& p) { at(p, kFirstCopy) = at(p, kGather); }).substr(0, 37), "instruction 0 (reshard of gathered): ");
  EXPECT_EQ(broken([](Plan& p) { p.instructions.pop_back(); }), "the output 'y': nothing is written to it");
  EXPECT_EQ(broken([](Plan& p) { at(p, kMultiply).results[0] = 0; }),
            "instruction 2 (binary of y): it writes to buffer 0 (x), which is an input");
}

}  // namespace
}  // namespace moesh::plan
