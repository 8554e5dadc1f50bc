// How many rows a forecast assumes if only the router knows their number.
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

  std::int64_t rows(ViewId counts, std::int64_t room = 1000, Router router = Router::even) {
    const ViewId view = value({room, 4}, counts);
    return RoutedRows(plan_, router).shape(plan_.view(view))[0];
  }

  // Draws two experts per token.
  void draw(double skew) {
    add(Op::random_scores, graph::DrawOf{8, skew}, {value({2}), value({2, 4})}, {value({2, 4, 8})});
    graph::TopKOf of;
    of.k = 2;
    add(Op::top_k, of, {value({2, 4, 8})}, {value({2, 4, 2}), value({2, 4, 2})});
  }

  // Sorts the choices of tokens, two per token; this device has a quarter of the experts.
  ViewId sorted(std::int64_t limit = 0, std::int64_t tokens = 8) {
    const ViewId index = value({}), sizes = value({2});
    add(Op::device_index, GroupOf{{0}, 4, 1, false}, {}, {index});
    add(Op::sort_slots, graph::SortSlotsOf{limit}, {value({tokens, 2}), index}, {value({2 * tokens}), sizes, value({})});
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

// Four devices with sixteen choices each; this one has two of the eight experts.
TEST_F(Routed, AnExchangeBringsTheRowsOfAllDevices) {
  const ViewId own = value({8}), counts = value({4, 8}), here = value({2});
  add(Op::sort_slots, graph::SortSlotsOf{}, {value({8, 2})}, {value({16}), own, value({})});
  add(Op::gather, GroupOf{{0}, 4, 1, false}, {own}, {counts});
  add(Op::plan_exchange, graph::SortSlotsOf{}, {counts, value({})}, {value({4, 8}), here, value({})});
  EXPECT_EQ(rows(here), 4 * 16 / 4);
}

// Both choices of a token miss this device's two experts of eight with a probability of 6/8 * 5/7: of 8 tokens, 3.7 have a row here.
TEST_F(Routed, SomeTokensHaveSeveralOfTheirChoicesHere) {
  const ViewId sizes = sorted(), count = value({});
  add(Op::list_tokens, GroupOf{.axes = {0}, .members = 4, .choices = 2, .experts = 8, .experts_here = 2}, {value({16}), sizes}, {value({8}), value({8}), value({16}), count});
  EXPECT_EQ(rows(count), 4) << "3.7, rounded up";
}

// Forty of two hundred choices have room here, a fifth: both of a token's are elsewhere with a probability of 6.4/8 * 5.4/7.
TEST_F(Routed, WithALimitTheRowsAreStillThoseOfAllTokens) {
  const ViewId sizes = sorted(40, 100), count = value({});
  add(Op::list_tokens, GroupOf{.axes = {0}, .members = 4, .choices = 2, .experts = 8, .experts_here = 2}, {value({40}), sizes}, {value({40}), value({40}), value({40}), count});
  EXPECT_EQ(rows(count), 39) << "38.3, rounded up";
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

// The hottest two of eight experts get 0.51 of the choices, two experts of an even router 0.25.
TEST_F(Routed, TheBusiestDeviceHasMoreWhereExpertsAreDrawn) {
  draw(1);
  const ViewId sizes = sorted(0, 10'000);
  const std::int64_t even = rows(sizes, 20'000), drawn = rows(sizes, 20'000, Router::drawn);
  const std::int64_t hottest = rows(sizes, 20'000, Router::hottest_together);
  EXPECT_EQ(even, 5000);
  EXPECT_NEAR(static_cast<double>(drawn), 1.65 * 5000, 0.03 * 5000);
  EXPECT_NEAR(static_cast<double>(hottest), 2.02 * 5000, 0.03 * 5000);
  const RoutedRows of_busiest(plan_, Router::drawn);
  ASSERT_EQ(of_busiest.counted().size(), 1u);
  EXPECT_EQ(of_busiest.counted()[0].draw, (Draw{10'000, 2, 8, 4, 1, 1}));
  EXPECT_EQ(of_busiest.counted()[0].room, 20'000);
  EXPECT_FALSE(of_busiest.counted()[0].is_bounded);
}

TEST_F(Routed, ALimitHoldsForTheBusiestDeviceToo) {
  draw(1);
  const ViewId sizes = sorted(6000, 10'000);
  EXPECT_EQ(rows(sizes, 6000, Router::drawn), 6000);
  const RoutedRows of_busiest(plan_, Router::drawn);
  EXPECT_TRUE(of_busiest.counted()[0].is_bounded);
  EXPECT_EQ(of_busiest.counted()[0].load.overflows, 1);
  EXPECT_GT(of_busiest.counted()[0].load.dropped, 0.05);
}

TEST_F(Routed, AnEvenRouterDropsWhatALimitLeavesOut) {
  draw(0);
  sorted(4000, 10'000);
  const RoutedRows even(plan_, Router::even);
  EXPECT_EQ(even.counted()[0].load.overflows, 1);
  EXPECT_DOUBLE_EQ(even.counted()[0].load.dropped, 0.2) << "of 5,000 rows";
}

// A token comes to a device for each of the experts there, not for each of its choices.
TEST_F(Routed, ADeviceHasRoomForATokenOnceForEachOfItsExperts) {
  add(Op::random_scores, graph::DrawOf{8, 1}, {value({2}), value({2, 4})}, {value({2, 4, 8})});
  graph::TopKOf of;
  of.k = 4;
  add(Op::top_k, of, {value({2, 4, 8})}, {value({2, 4, 4}), value({2, 4, 4})});
  const ViewId index = value({}), sizes = value({2});
  add(Op::device_index, GroupOf{{0}, 4, 1, false}, {}, {index});
  add(Op::sort_slots, graph::SortSlotsOf{}, {value({100, 4}), index}, {value({400}), sizes, value({})});
  EXPECT_EQ(RoutedRows(plan_, Router::even).counted()[0].room, 100 * 2);
}

TEST_F(Routed, AnExchangeBringsTheBusiestDeviceMore) {
  draw(0);
  const ViewId own = value({8}), counts = value({4, 8}), here = value({2});
  add(Op::sort_slots, graph::SortSlotsOf{}, {value({8, 2})}, {value({16}), own, value({})});
  add(Op::gather, GroupOf{{0}, 4, 1, false}, {own}, {counts});
  add(Op::plan_exchange, graph::SortSlotsOf{}, {counts, value({})}, {value({4, 8}), here, value({})});
  EXPECT_EQ(rows(own, 16, Router::drawn), 16) << "a device has the rows of its own tokens";
  EXPECT_EQ(rows(here), 16);
  EXPECT_GT(rows(here, 1000, Router::drawn), 18) << "of 32 tokens, even without skew";
  EXPECT_EQ(RoutedRows(plan_, Router::drawn).counted()[0].draw, (Draw{32, 2, 8, 4, 1, 0}));
}

TEST_F(Routed, AModelsOwnRoutersAreEven) {
  const ViewId sizes = sorted(0, 10'000);
  EXPECT_EQ(rows(sizes, 20'000, Router::drawn), 5000);
  EXPECT_EQ(rows(sizes, 20'000, Router::hottest_together), 5000);
}

}  // namespace
}  // namespace moesh::forecast
