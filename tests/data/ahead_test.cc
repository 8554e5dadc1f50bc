// Items that threads make ahead of time: which, how many, and what happens when one fails.
#include "data/ahead.h"

#include <atomic>
#include <chrono>
#include <stdexcept>

#include <gtest/gtest.h>

namespace moesh::data {
namespace {

TEST(Ahead, GivesWhatIsAskedForInAnyOrder) {
  Ahead<std::int64_t> squares([](std::int64_t i) { return i * i; }, 3, 5);
  for (const std::int64_t i : {0, 1, 2, 3, 4, 5, 6, 6, 7, 20, 21, 3, 4, 1'000'000}) EXPECT_EQ(*squares.at(i), i * i);
}

TEST(Ahead, MakesNoMoreThanItsWindow) {
  std::atomic<std::int64_t> most = 0, count = 0;
  {
    Ahead<std::int64_t> numbers(
        [&](std::int64_t i) {
          ++count;
          for (std::int64_t seen = most; seen < i && !most.compare_exchange_weak(seen, i);) {}
          return i;
        },
        2, 4);
    EXPECT_EQ(count, 0) << "nothing before the first is asked for";
    for (std::int64_t i = 0; i < 100; ++i) {
      numbers.at(i);
      EXPECT_LE(most, i + 3);
    }
  }
  EXPECT_GE(count, 100);
  EXPECT_LE(count, 103);
}

TEST(Ahead, AFailureIsOfItsNumberAlone) {
  Ahead<int> numbers(
      [](std::int64_t i) {
        if (i == 3) throw std::runtime_error("three");
        return static_cast<int>(i);
      },
      2, 4);
  EXPECT_EQ(*numbers.at(2), 2);
  EXPECT_THROW(numbers.at(3), std::runtime_error);
  EXPECT_EQ(*numbers.at(4), 4);
  EXPECT_THROW(numbers.at(3), std::runtime_error);
}

TEST(Ahead, WithoutThreadsMakesNoMoreThanWhatIsAskedForWhereItIsAskedFor) {
  const auto here = std::this_thread::get_id();
  std::vector<std::int64_t> made;
  Ahead<std::int64_t> numbers(
      [&](std::int64_t i) {
        EXPECT_EQ(std::this_thread::get_id(), here);
        made.push_back(i);
        if (i == 3) throw std::runtime_error("three");
        return i * i;
      },
      0, 1);
  for (const std::int64_t i : {0, 5, 5, 2}) EXPECT_EQ(*numbers.at(i), i * i);
  EXPECT_THROW(numbers.at(3), std::runtime_error);
  EXPECT_EQ(made, (std::vector<std::int64_t>{0, 5, 2, 3}));
}

TEST(Ahead, TellsHowLongItWasWaitedFor) {
  Ahead<int> numbers(
      [](std::int64_t) {
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        return 0;
      },
      1, 1);
  numbers.at(0);
  EXPECT_GE(numbers.waited(), 0.02);
}

TEST(Ahead, EndsWhileThingsAreBeingMade) {
  for (int round = 0; round < 50; ++round) {
    Ahead<int> numbers([](std::int64_t i) { return static_cast<int>(i); }, 3, 10);
    numbers.at(round);
  }
}

}  // namespace
}  // namespace moesh::data
