// How many rows are planned for where only a router knows.
#include "forecast/routed_rows.h"

#include <gtest/gtest.h>

#include "tests/support.h"

namespace moesh::forecast {
namespace {

using graph::GroupOf;
using graph::Op;
using plan::ViewId;

class Routed : public ::testing::Test {
 protected:
  ViewId value(Shape shape, ViewId rows = -1) {
    plan_.buffers.push_back({"", plan::Lasts::within, 64, {}});
    plan_.views.push_back(
        {static_cast<plan::BufferId>(plan_.buffers.size() - 1), std::move(shape), DType::int32, {}, {}, 0, 1, rows});
    return static_cast<ViewId>(plan_.views.size() - 1);
  }

  void add(Op op, graph::Attributes attributes, std::vector<ViewId> operands, std::vector<ViewId> results) {
    plan::Instruction instruction;
    instruction.op = op;
    instruction.attributes = std::move(attributes);
    instruction.operands = std::move(operands);
    instruction.results = std::move(results);
    plan_.instructions.push_back(std::move(instruction));
  }

  std::int64_t rows(ViewId counts, std::int64_t room = 1000) {
    const ViewId view = value({room, 4}, counts);
    return RoutedRows(plan_, Router::even).shape(plan_.view(view))[0];
  }

  // Eight tokens of two choices, of whose experts this device has a quarter.
  ViewId sorted(std::int64_t limit = 0) {
    const ViewId index = value({}), sizes = value({2});
    add(Op::device_index, GroupOf{{0}, 4, 1, false}, {}, {index});
    add(Op::sort_slots, graph::SortSlotsOf{limit}, {value({8, 2}), index}, {value({16}), sizes, value({})});
    return sizes;
  }

  plan::Plan plan_;
};

TEST_F(Routed, ADeviceHasItsShareOfTheChoices) {
  const ViewId sizes = sorted();
  EXPECT_EQ(rows(sizes), 8 * 2 / 4);
  EXPECT_EQ(rows(sizes, 3), 3) << "there is room for three";
}

TEST_F(Routed, ALimitHoldsForRowsToo) { EXPECT_EQ(rows(sorted(3)), 3); }

TEST_F(Routed, WithoutAnIndexAllExpertsAreHere) {
  const ViewId sizes = value({8});
  add(Op::sort_slots, graph::SortSlotsOf{}, {value({8, 2})}, {value({16}), sizes, value({})});
  EXPECT_EQ(rows(sizes), 16);
}

// Four devices with sixteen choices each; this one has two of eight experts.
TEST_F(Routed, AnExchangeBringsTheRowsOfAllDevices) {
  const ViewId own = value({8}), counts = value({4, 8}), here = value({2});
  add(Op::sort_slots, graph::SortSlotsOf{}, {value({8, 2})}, {value({16}), own, value({})});
  add(Op::gather, GroupOf{{0}, 4, 1, false}, {own}, {counts});
  add(Op::plan_exchange, graph::SortSlotsOf{}, {counts, value({})}, {value({4, 8}), here, value({})});
  EXPECT_EQ(rows(here), 4 * 16 / 4);
}

// A token's two choices miss this device's quarter of the experts with 0.75 * 0.75: of 8 tokens 3.5 have a row here.
TEST_F(Routed, SomeTokensHaveSeveralOfTheirChoicesHere) {
  const ViewId sizes = sorted(), count = value({});
  add(Op::list_tokens, GroupOf{{0}, 4, 2, false}, {value({16}), sizes}, {value({8}), value({8}), value({16}), count});
  EXPECT_EQ(rows(count), 4) << "3.5, rounded up";
}

TEST_F(Routed, ACopyCountsTheSame) {
  const ViewId sizes = sorted(), copy = value({2});
  plan::Instruction instruction;
  instruction.kind = plan::Instruction::Kind::copy;
  instruction.operands = {sizes};
  instruction.results = {copy};
  plan_.instructions.push_back(instruction);
  EXPECT_EQ(rows(copy), 4);
}

TEST_F(Routed, WhatNobodyCountedHasAllRowsThatThereIsRoomFor) { EXPECT_EQ(rows(value({2}), 40), 40); }

}  // namespace
}  // namespace moesh::forecast
