// Compares the bytes of tiled arrays with figures worked out by hand. tests/golden/compiled holds whole states to what XLA takes.
#include "cost/tiles.h"

#include <algorithm>

#include <gtest/gtest.h>

namespace moesh::cost {
namespace {

constexpr mesh::MemoryTile kTile{8, 128};

std::int64_t elements_of(const Shape& shape, DType dtype = DType::float32) { return tiled_bytes(shape, dtype, kTile) / size_of(dtype); }

TEST(TiledBytes, AreThoseOfTheArrayIfWholeTilesHoldIt) {
  EXPECT_EQ(elements_of({4096, 14336}), 4096 * 14336);
  EXPECT_EQ(elements_of({8, 128}), 8 * 128);
  EXPECT_EQ(elements_of({2, 3, 16, 256}), 2 * 3 * 16 * 256);
}

TEST(TiledBytes, LeaveTheLeastOfTheTilesEmpty) {
  EXPECT_EQ(elements_of({32, 2880, 2880}), 32 * 2880 * 2944);
  EXPECT_EQ(elements_of({201088, 2880}), 201088 * 2880) << "201,088 columns";
  EXPECT_EQ(elements_of({64, 58, 512}), 64 * 58 * 512) << "64 rows, not 58";
  EXPECT_EQ(elements_of({100, 60}), 64 * 128) << "100 columns and 60 rows";
}

TEST(TiledBytes, OfFewRowsHaveLowerTiles) {
  EXPECT_EQ(elements_of({1, 2048}), 2048);
  EXPECT_EQ(elements_of({3, 256}), 4 * 256);
  EXPECT_EQ(elements_of({5, 256}), 8 * 256);
  EXPECT_EQ(elements_of({3, 256}, DType::bfloat16), 4 * 256);
  EXPECT_EQ(elements_of({9, 256}, DType::bfloat16), 16 * 256) << "two rows share a word";
  EXPECT_EQ(elements_of({17, 256}, DType::bfloat16), 32 * 256);
}

TEST(TiledBytes, OfOneDimFillATileOrARow) {
  EXPECT_EQ(elements_of({1}), 1);
  EXPECT_EQ(elements_of({100}), 128);
  EXPECT_EQ(elements_of({300}), 512);
  EXPECT_EQ(elements_of({1000}), 1024);
  EXPECT_EQ(elements_of({2500}), 3072);
  EXPECT_EQ(elements_of({}), 1);
  EXPECT_EQ(elements_of({0, 5}), 0);
}

TEST(TiledBytes, AreTheSameInAnyOrderOfDims) {
  const std::vector<std::int64_t> sizes{1, 3, 7, 8, 60, 130, 300};
  for (const std::int64_t x : sizes) {
    for (const std::int64_t y : sizes) {
      for (const std::int64_t z : sizes) {
        Shape shape{x, y, z};
        std::sort(shape.begin(), shape.end());
        const std::int64_t all = elements_of(shape);
        EXPECT_GE(all, elements(shape)) << to_string(shape);
        while (std::next_permutation(shape.begin(), shape.end())) EXPECT_EQ(elements_of(shape), all) << to_string(shape);
      }
    }
  }
}

}  // namespace
}  // namespace moesh::cost
