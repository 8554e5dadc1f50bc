// Tests the comparison of what a run did with its plan.
#include "run/audit.h"

#include <gtest/gtest.h>

#include "graph/parse.h"
#include "plan/lower.h"
#include "tests/support.h"

namespace moesh::run {
namespace {

// Four devices gather rows in a loop of three iterations, and add the sum of the rows to the carried value.
constexpr const char* kText =
    "mesh {x=4}\n"
    "%0: float32[8, 2] as [(x), -] = input labels=(-, -)  # x\n"
    "%1: float32[2] as [-] = input labels=(-)  # y\n"
    "%2: float32[2] as [-] = repeat %1, %0 sizes=[3] labels=(layers) carried=1 shared=1  # layers\n"
    "  %0: float32[2] as [-] = input labels=(-)  # y\n"
    "  %1: float32[8, 2] as [(x), -] = input labels=(-, -)  # x\n"
    "  %2: float32[8, 2] as [-, -] = reshard %1 kind=all-gather axes=(x) from=0  # all\n"
    "  %3: float32[2] as [-] = reduce %2 function=sum dims=[0]  # sum\n"
    "  %4: float32[2] as [-] = binary %0, %3 function=add  # y\n"
    "  return %4\n"
    "return %2 as y\n";

class Audited : public ::testing::Test {
 protected:
  Program program(int owners) {
    const graph::ParsedGraph parsed = graph::parse_graph(kText);
    return {plan::lower(parsed.graph, *parsed.mesh), std::make_shared<State>(), workers_, {.owners = mesh::Owners::in_a_row(*parsed.mesh, owners)}};
  }
  Workers workers_{2};
  std::shared_ptr<Pool> pool_ = Pool::create();
};

TEST_F(Audited, CountsWhatEachRunMoves) {
  for (const int owners : {1, 2, 4}) {
    Program made = program(owners);
    EXPECT_EQ(audit(made).difference(), "") << "nothing has run";
    for (int run = 1; run <= 2; ++run) {
      made.run();
      const Audit after = audit(made);
      ASSERT_EQ(after.collectives.size(), 1u);
      EXPECT_EQ(after.collectives[0].runs, 3 * run);
      EXPECT_EQ(after.collectives[0].bytes, 3 * run * 4 * (64 - 16)) << "each device takes three quarters of 64 bytes";
      EXPECT_EQ(after.collectives[0].path, "all");
      EXPECT_EQ(after.memory, after.planned_memory);
      EXPECT_EQ(after.difference(), "");
    }
  }
}

TEST_F(Audited, LeavesOutRunsThatEndEarly) {
  Program made = program(2);
  made.run({nullptr, nullptr, [](const plan::Instruction& of) { return of.op == graph::Op::reduce; }});
  EXPECT_EQ(audit(made).collectives[0].runs, 0);
  EXPECT_EQ(audit(made).difference(), "");
}

TEST(AuditWords, NameTheFirstDifference) {
  Audit made;
  made.collectives.push_back({0, graph::ReshardOf::Kind::all_gather, "layers/all", 3, 3, 1000, 1000, false});
  made.collectives.push_back({1, graph::ReshardOf::Kind::all_to_all, "experts/rows", 3, 3, 1000, 400, true});
  EXPECT_EQ(made.difference(), "");
  made.memory = 7;
  EXPECT_EQ(made.difference(), "memory: planned 0 bytes, taken 7");
  made.collectives[1].bytes = 1001;
  EXPECT_EQ(made.difference(), "all-to-all at experts/rows: planned 3 times with 1,000 in all at most, it ran 3 times with 1,001");
  made.collectives[0].runs = 2;
  EXPECT_EQ(made.difference(), "all-gather at layers/all: planned 3 times with 1,000 in all, it ran 2 times with 1,000");
}

}  // namespace
}  // namespace moesh::run
