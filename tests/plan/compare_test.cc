// Tests the message about the first difference between two plans.
#include "plan/compare.h"

#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/parse.h"
#include "plan/lower.h"
#include "tests/plan/plan_support.h"

namespace moesh::plan {
namespace {

using test::kOnTwo;
using test::planned;
using ::testing::HasSubstr;
using ::testing::StartsWith;

Plan small(const std::string& function = "silu", int layers = 3) {
  const std::string n = std::to_string(layers);
  const graph::ParsedGraph parsed = graph::parse_graph(
      "mesh {fsdp=2}\n"
      "%0: float32[4] as [(fsdp)] = input labels=(-)  # x\n"
      "%1: float32[" +
      n +
      ", 4] as [-, (fsdp)] = parameter labels=(layers, -)  # w\n"
      "%2: float32[4] as [(fsdp)] = repeat %0, %1 sizes=[" +
      n +
      "] labels=(layers) carried=1 slices=[0]  # layers\n"
      "  %0: float32[4] as [(fsdp)] = input labels=(-)  # x\n"
      "  %1: float32[4] as [(fsdp)] = input labels=(-)  # w\n"
      "  %2: float32[4] as [(fsdp)] = binary %0, %1 function=multiply  # y\n"
      "  return %2\n"
      "%3: float32[4] as [(fsdp)] = unary %2 function=" +
      function +
      "  # z\n"
      "return %3 as z\n");
  return lower(parsed.graph, *parsed.mesh);
}

std::string changed(const std::function<void(Plan&)>& change) {
  Plan plan = small();
  change(plan);
  return first_difference(plan, small());
}

TEST(ComparePlans, FindsNoneBetweenEqualOnes) { EXPECT_EQ(first_difference(small(), small()), ""); }

// The difference may be in any field of any entry.
TEST(ComparePlans, NamesTheFieldAndBothValues) {
  EXPECT_EQ(first_difference(small("silu"), small("relu")),
            "instruction 4 (kernel unary of z): what it does is function=silu in the file and function=relu here");
  EXPECT_EQ(first_difference(small("silu", 3), small("silu", 5)),
            "port 1 (w): the shape of its value is [3, 4] in the file and [5, 4] here");
  EXPECT_EQ(changed([](Plan& p) {
              p.mesh = mesh::Mesh({{"tensor", 2, 1}});
            }),
            "the mesh is {tensor=2} in the file and {fsdp=2} here");
  EXPECT_EQ(changed([](Plan& p) { p.ports[0].name = "y"; }), "port 0: the name of it is y in the file and x here");
  EXPECT_EQ(changed([](Plan& p) { p.ports[0].kind = Port::Kind::state; }),
            "port 0: the kind of it is state in the file and input here");
  EXPECT_EQ(changed([](Plan& p) { p.buffers[0].bytes = 6; }),
            "port 0 (x): the bytes of the buffer of its value is 6 in the file and 8 here");
  EXPECT_EQ(changed([](Plan& p) { p.buffers[0].lasts = Lasts::within; }),
            "port 0 (x): the lasts of the buffer of its value is scratch in the file and input here");
  EXPECT_EQ(changed([](Plan& p) { p.buffers[0].distinct.clear(); }),
            "port 0 (x): the distinct of the buffer of its value is () in the file and (fsdp) here");
  EXPECT_EQ(changed([](Plan& p) { p.buffers[0].name = "y"; }),
            "port 0 (x): the name of the buffer of its value is y in the file and x here");
  EXPECT_EQ(changed([](Plan& p) { p.views[0].spec.dims[0].clear(); }),
            "port 0 (x): the spec of its value is [-] in the file and [(fsdp)] here");
  EXPECT_EQ(changed([](Plan& p) { p.views[0].dtype = DType::int32; }),
            "port 0 (x): the dtype of its value is int32 in the file and float32 here");
  EXPECT_EQ(changed([](Plan& p) { p.views[0].split = 1; }), "port 0 (x): the split of its value is 1 in the file and 0 here");
  EXPECT_EQ(changed([](Plan& p) { p.views[0].stacked = 2; }), "port 0 (x): the stacked of its value is 2 in the file and 1 here");
  EXPECT_EQ(changed([](Plan& p) { p.instructions[1].count = 4; }),
            "instruction 1 (loop repeat of layers): the count of it is 4 in the file and 3 here");
  EXPECT_EQ(changed([](Plan& p) { p.instructions[1].reverse = true; }),
            "instruction 1 (loop repeat of layers): the reverse of it is true in the file and false here");
  EXPECT_EQ(changed([](Plan& p) { p.instructions[4].path = "q"; }),
            "instruction 4 is kernel unary of q in the file and kernel unary of z here");
  EXPECT_EQ(changed([](Plan& p) { p.instructions[4].kind = Instruction::Kind::collective; }),
            "instruction 4 is collective unary of z in the file and kernel unary of z here");
  EXPECT_EQ(changed([](Plan& p) { p.instructions[4].op = graph::Op::cast; }),
            "instruction 4 is kernel cast of z in the file and kernel unary of z here");
  EXPECT_EQ(changed([](Plan& p) { p.instructions[4].operands.clear(); }),
            "instruction 4 (kernel unary of z): the file has 0 operands, here are 1");
  EXPECT_EQ(changed([](Plan& p) {
              p.views.push_back(p.view(p.instructions[2].operands[1]));
              p.views.back().advances[0].by = 2;
              p.instructions[2].operands[1] = static_cast<ViewId>(p.views.size() - 1);
            }),
            "instruction 2 (kernel binary of y): the advances of operand 1 is [{loop=1 by=2}] in the file and [{loop=1}] here");
}

// Plans that are alike except for their counts of entries and the numbers that refer to views and instructions.
TEST(ComparePlans, FindsNumbersThatDiffer) {
  EXPECT_EQ(changed([](Plan& p) { p.views.push_back(p.views[0]); }).substr(0, 13), "the file has ");
  EXPECT_EQ(
      changed([](Plan& p) {
        p.views.push_back(p.views[0]);
        p.ports[0].view = static_cast<ViewId>(p.views.size() - 1);
      }),
      "the file has " + std::to_string(small().views.size() + 1) + " views, here are " + std::to_string(small().views.size()));
  EXPECT_THAT(changed([](Plan& p) { p.results[0] = 0; }), StartsWith("the list of results is [0] in the file and ["));
  EXPECT_THAT(changed([](Plan& p) { p.buffers.push_back(p.buffers[0]); }), HasSubstr(" buffers, here are "));
  EXPECT_THAT(changed([](Plan& p) { p.instructions.push_back(p.instructions[4]); }),
              HasSubstr("the file has 6 instructions, here are 5"));
  EXPECT_THAT(changed([](Plan& p) { p.ports.push_back(p.ports[0]); }), HasSubstr("the file has 4 ports, here are 3"));
  EXPECT_THAT(changed([](Plan& p) { p.views[0].rows = 0; }), StartsWith("the rows of view 0 is 0 in the file and -1 here"));
  EXPECT_THAT(changed([](Plan& p) { p.instructions[1].other = 2; }),
              StartsWith("the other of instruction 1 is 2 in the file and 3 here"));
}

// The error message of checking the saved plan of one request against the plan of another.
std::string held(const std::string& saved, const std::string& here) {
  const SavedPlan of_here = planned(here);
  return test::message_of([&] { check_same(planned(saved), of_here.plan, of_here.origin, "a.plan"); });
}

TEST(ComparePlans, TakesAPlanThatIsTheSame) {
  EXPECT_EQ(held(kOnTwo, kOnTwo), "no error");
  EXPECT_EQ(held(kOnTwo, kOnTwo + "learning_rate=0.5 init_weights_seed=3 steps=9"), "no error") << "no plan depends on these";
}

TEST(ComparePlans, RefusesAnotherMachineOrMesh) {
  EXPECT_EQ(held(kOnTwo + "compile_topology=cpu-4", kOnTwo),
            "a.plan: the plan is for cpu-4, this run is on cpu-2\n"
            "  fix: ask for the same compile_topology, or save the plan of this request: `moesh compile ... --save-plan FILE`");
  EXPECT_THAT(held(kOnTwo + "compile_topology_num_slices=2", kOnTwo),
              StartsWith("a.plan: the plan is for 2 slices of cpu-2, this run is on cpu-2"));
  const std::string mesh = held(kOnTwo + "ici_fsdp_parallelism=1 ici_expert_parallelism=2", kOnTwo);
  EXPECT_THAT(mesh, StartsWith("a.plan: the plan is for the mesh {"));
  EXPECT_THAT(mesh, HasSubstr("}, this run is on {"));
  EXPECT_THAT(mesh, HasSubstr("\n  fix: ask for the same axis sizes, or save the plan of this request"));
}

TEST(ComparePlans, NamesTheFirstDifferenceAndTheSettingsThatDiffer) {
  const std::string message = held(kOnTwo + "remat_policy=minimal", kOnTwo + "adam_b1=0.5");
  EXPECT_THAT(message, StartsWith("a.plan: the plan is not what this request runs: "));
  EXPECT_THAT(message, HasSubstr(" in the file and "));
  EXPECT_THAT(message, HasSubstr("adam_b1 is its default in the file and 0.5 here; remat_policy is minimal in the file and its "
                                 "default here; or save the plan"));
  EXPECT_THAT(held(kOnTwo, kOnTwo + "adam_b1=0.5"), HasSubstr("adam_update of "));
}

}  // namespace
}  // namespace moesh::plan
