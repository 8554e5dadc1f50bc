#include "backend/cpu/caches.h"

#include <gtest/gtest.h>

namespace moesh::backend::cpu {
namespace {

TEST(Caches, TheSecondOneHasASizeThatTasksCanBeCutBy) {
  EXPECT_GE(l2_cache_bytes(), 256 * 1024);
  EXPECT_LE(l2_cache_bytes(), 4 * 1024 * 1024);
}

TEST(Caches, HalfOfTheSecondOneHoldsRowsThatLieSideBySide) {
  for (const std::int64_t bytes : {64, 256, 2048}) EXPECT_EQ(rows_in_l2(bytes, bytes), l2_cache_bytes() / 2 / bytes) << bytes;
}

// Rows that lie a whole number of ways apart share the cache's sets. A set has 16 places, and half of them are counted.
TEST(Caches, TheSecondOneHoldsFewRowsThatLieAPowerOfTwoApart) {
  const std::int64_t way = l2_cache_bytes() / 16;
  EXPECT_EQ(rows_in_l2(512, way), 8);
  EXPECT_EQ(rows_in_l2(512, 4 * way), 8);
  EXPECT_EQ(rows_in_l2(512, way / 4), 4 * 8);
  EXPECT_EQ(rows_in_l2(512, 3 * way / 4), 4 * 8);
}

TEST(Caches, RowsThatLieALittleMoreThanAPowerOfTwoApartTakeTheirPlacesInTurn) {
  const std::int64_t way = l2_cache_bytes() / 16;
  EXPECT_EQ(rows_in_l2(512, way + 512), way / 512 * 8);
  EXPECT_EQ(rows_in_l2(448, way + 1024), way / 1024 * 8);
}

TEST(Caches, TheFirstOneHoldsFewRowsThatLieAPowerOfTwoApart) {
  EXPECT_EQ(rows_in_l1(1024, 1024), 32);
  EXPECT_EQ(rows_in_l1(1024, 2048), 16);
  EXPECT_EQ(rows_in_l1(1024, 4096), 8);
  EXPECT_EQ(rows_in_l1(1024, 4096 + 1024), 32);
  EXPECT_EQ(rows_in_l1(256, 256), 128);
}

TEST(Caches, AlwaysHoldSomeRows) { EXPECT_GE(rows_in_l2(64 * 1024 * 1024, 64 * 1024 * 1024), 1); }

}  // namespace
}  // namespace moesh::backend::cpu
