// Tests of the facts about ops: each op has a name of its own, and shapes that do not fit are refused whenever a node is added.
#include <set>
#include <string>

#include <gtest/gtest.h>

#include "graph/facts.h"
#include "tests/support.h"

namespace moesh::graph {
namespace {

TEST(Facts, NameEveryOpOnce) {
  std::set<std::string_view> names;
  for (int i = 0; i < kOps; ++i) {
    const OpFacts& facts = facts_of(static_cast<Op>(i));
    EXPECT_TRUE(names.insert(facts.name).second) << facts.name;
    EXPECT_NE(facts.shapes, nullptr) << facts.name;
  }
}

// The error message for a node with this many boolean operands and this many results, all of different sizes.
std::string refusal(Op op, std::size_t operands, std::size_t results) {
  Builder builder;
  std::vector<Tensor> flags;
  for (std::size_t i = 0; i < operands; ++i) {
    flags.push_back(builder.input("flag", {static_cast<std::int64_t>(3 + i)}, DType::boolean, {""}));
  }
  std::vector<std::pair<Shape, DType>> made;
  for (std::size_t i = 0; i < results; ++i) made.push_back({{101, static_cast<std::int64_t>(103 + i)}, DType::float32});
  return test::message_of([&] { builder.add(op, "made", flags, facts_of(op).attributes(), made); });
}

std::set<Op> but(std::set<Op> exempt) {
  std::set<Op> ops;
  for (int i = 0; i < kOps; ++i) {
    if (exempt.count(static_cast<Op>(i)) == 0) ops.insert(static_cast<Op>(i));
  }
  return ops;
}

void expect_refused(Op op, std::size_t operands, std::size_t results) {
  const std::string message = refusal(op, operands, results);
  EXPECT_NE(message.find(" does not fit operands of shapes "), std::string::npos)
      << name_of(op) << " of " << operands << " operands and " << results << " results: " << message;
}

// Inputs, parameters and constants may have any shape.
TEST(Facts, RefuseShapes) {
  for (const Op op : but({Op::input, Op::parameter, Op::fill})) {
    expect_refused(op, facts_of(op).takes.least, facts_of(op).gives.least);
  }
}

TEST(Facts, RefuseNumbersOfOperandsAndResults) {
  for (const Op op : but({})) {
    const auto& [takes, gives] = std::pair(facts_of(op).takes, facts_of(op).gives);
    if (takes.least > 0) expect_refused(op, takes.least - 1, gives.least);
    if (takes.most < kMany) expect_refused(op, takes.most + 1, gives.least);
    if (gives.least > 0) expect_refused(op, takes.least, gives.least - 1);
    if (gives.most < kMany) expect_refused(op, takes.least, gives.most + 1);
  }
}

}  // namespace
}  // namespace moesh::graph
