// Parts of tensors: their shared elements are copied whatever the strides and types, and chunks cover a block once, in order.
#include "store/parts.h"

#include <numeric>
#include <random>

#include <gmock/gmock.h>

#include "base/bfloat16.h"

namespace moesh::store {
namespace {

using ::testing::ElementsAre;

std::byte* room_of(std::vector<float>& values) { return reinterpret_cast<std::byte*>(values.data()); }

std::vector<float> values_counted_up(std::int64_t count) {
  std::vector<float> values(static_cast<std::size_t>(count));
  std::iota(values.begin(), values.end(), 0.0f);
  return values;
}

TEST(Parts, ShareABlockOrNothing) {
  const auto shared = shared_block({{0, 4}, {2, 6}}, {{3, 9}, {0, 3}});
  ASSERT_TRUE(shared);
  EXPECT_EQ(sharding::shape_of(*shared), (Shape{1, 1}));
  EXPECT_FALSE(shared_block({{0, 4}}, {{4, 8}}));
  EXPECT_TRUE(shared_block({}, {})) << "a number has one element";
}

TEST(Parts, AreSharedOutOnceEach) {
  EXPECT_EQ(sharding::shape_of(share_of({{0, 2}, {4, 9}}, 1, 3)), (Shape{2, 2})) << "the second of 1, 2 and 2 of the longest dim";
  std::int64_t elements = 0, numbers = 0;
  for (std::int64_t index = 0; index < 3; ++index) {
    elements += elements_of(share_of({{0, 2}, {4, 9}}, index, 3));
    numbers += elements_of(share_of({}, index, 3));
  }
  EXPECT_EQ(elements, 10);
  EXPECT_EQ(numbers, 1) << "a number cannot be cut";
}

TEST(Parts, CopyWhatTheyShareAndNothingElse) {
  std::vector<float> whole = values_counted_up(12), part(4, -1);
  const Part from = dense_part({{0, 3}, {0, 4}}, DType::float32, room_of(whole));
  EXPECT_EQ(copy_shared(from, dense_part({{1, 3}, {3, 5}}, DType::float32, room_of(part))), 2);
  EXPECT_THAT(part, ElementsAre(7, -1, 11, -1));
  EXPECT_EQ(copy_shared(from, dense_part({{3, 5}, {0, 2}}, DType::float32, room_of(part))), 0);
}

TEST(Parts, MayLieTurnedInMemory) {
  std::vector<float> turned = values_counted_up(6), rows(6);
  // A [2, 3] matrix stored in column-major order.
  const Part from{{{0, 2}, {0, 3}}, DType::float32, room_of(turned), {4, 8}};
  EXPECT_EQ(copy_shared(from, dense_part({{0, 2}, {0, 3}}, DType::float32, room_of(rows))), 6);
  EXPECT_THAT(rows, ElementsAre(0, 2, 4, 1, 3, 5));
}

TEST(Parts, RoundWhereTypesDiffer) {
  std::vector<float> wide{1.0f, 1.00001f, -3.14159f};
  std::vector<bfloat16> narrow(3);
  const Block block{{0, 3}};
  copy_shared(dense_part(block, DType::float32, room_of(wide)), dense_part(block, DType::bfloat16, reinterpret_cast<std::byte*>(narrow.data())));
  for (std::size_t i = 0; i < wide.size(); ++i) EXPECT_EQ(static_cast<float>(narrow[i]), static_cast<float>(bfloat16(wide[i])));
  std::vector<float> back(3);
  copy_shared(dense_part(block, DType::bfloat16, reinterpret_cast<std::byte*>(narrow.data())), dense_part(block, DType::float32, room_of(back)));
  EXPECT_EQ(back[0], 1.0f);
}

TEST(Parts, OfANumberAreTheNumber) {
  std::vector<float> from{3}, to{0};
  EXPECT_EQ(copy_shared(dense_part({}, DType::float32, room_of(from)), dense_part({}, DType::float32, room_of(to))), 1);
  EXPECT_EQ(to[0], 3);
}

TEST(Chunks, GoThroughABlockOnceInOrder) {
  std::mt19937 engine(5);
  const auto below = [&](std::int64_t count) { return static_cast<std::int64_t>(engine() % static_cast<std::uint64_t>(count)); };
  for (int trial = 0; trial < 300; ++trial) {
    Block block;
    for (std::int64_t dims = below(5); dims > 0; --dims) {
      const std::int64_t begin = below(4);
      block.push_back({begin, begin + below(6) + (trial % 7 == 0 ? 0 : 1)});
    }
    const std::int64_t most = 8 + below(60);
    const Chunks chunks(block, DType::float32, most);
    const Part whole = dense_part(block, DType::float32, nullptr);
    std::int64_t end = 0;
    for (std::int64_t i = 0; i < chunks.count(); ++i) {
      const Block chunk = chunks.block(i);
      EXPECT_EQ(chunks.offset(i), end);
      EXPECT_EQ(chunks.bytes(i), elements_of(chunk) * 4);
      EXPECT_LE(chunks.bytes(i), most);
      std::int64_t first = 0;
      for (std::size_t dim = 0; dim < chunk.size(); ++dim) first += (chunk[dim].begin - block[dim].begin) * whole.strides[dim];
      EXPECT_EQ(first, end) << "a chunk begins where the last one ended";
      end += chunks.bytes(i);
    }
    EXPECT_EQ(end, elements_of(block) * 4);
  }
}

}  // namespace
}  // namespace moesh::store
