// Random permutations computed from a key.
#include "base/random.h"

#include <numeric>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace moesh {
namespace {

std::vector<std::uint64_t> order(std::int64_t seed, std::uint64_t count) {
  std::vector<std::uint64_t> places;
  for (std::uint64_t i = 0; i < count; ++i) places.push_back(permuted(random_key(seed), i, count));
  return places;
}

TEST(Permuted, GivesEveryPlaceOnce) {
  for (const std::uint64_t count : {1u, 2u, 3u, 4u, 5u, 63u, 64u, 65u, 1000u}) {
    std::vector<std::uint64_t> all(count);
    std::iota(all.begin(), all.end(), 0);
    EXPECT_THAT(order(0, count), ::testing::UnorderedElementsAreArray(all)) << count;
  }
}

TEST(Permuted, IsAnotherOrderForAnotherKey) {
  EXPECT_NE(order(0, 100), order(1, 100));
  EXPECT_EQ(order(7, 100), order(7, 100));
}

// In a random order of 1000 numbers about one pair of neighbours is expected to stay adjacent; the bound of 10 leaves ample room.
TEST(Permuted, PutsNeighboursApart) {
  const std::vector<std::uint64_t> places = order(3, 1000);
  int neighbours = 0;
  for (std::size_t i = 1; i < places.size(); ++i) neighbours += places[i] == places[i - 1] + 1 ? 1 : 0;
  EXPECT_LT(neighbours, 10);
}

}  // namespace
}  // namespace moesh
