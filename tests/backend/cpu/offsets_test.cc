#include "backend/cpu/offsets.h"

#include <cstdint>

#include <gtest/gtest.h>

#include "backend/workers.h"

namespace moesh::backend::cpu {
namespace {

std::int64_t first_wrong(const OffsetList& list, std::int64_t count, std::int64_t step) {
  if (list.size() != static_cast<std::size_t>(count) || Offsets(list).pitch != step) return 0;
  for (std::int64_t i = 0; i < count; ++i) {
    if (list[static_cast<std::size_t>(i)] != i * step) return i;
  }
  return -1;
}

TEST(Offsets, GoInStepsHoweverManyAndHowFar) {
  for (const std::int64_t count : {0, 1, 2, 511, 512, 513, 16384, 16385, 40000}) {
    for (const std::int64_t step : {0, 1, 2, 1000}) EXPECT_EQ(first_wrong(steps(count, step), count, step), -1) << count << " by " << step;
  }
}

// More different steps than are kept, short lists before long ones, on threads that meet in them.
TEST(Offsets, AreTheSameOnEveryThread) {
  Workers workers(4);
  workers.parallel(4000, 1, [](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t step = i % 100, count = 1 + i * 7 % 3000;
      const OffsetList longer = steps(2 * count, step), list = steps(count, step);
      EXPECT_EQ(first_wrong(longer, 2 * count, step), -1);
      EXPECT_EQ(first_wrong(list, count, step), -1);
    }
  });
}

}  // namespace
}  // namespace moesh::backend::cpu
