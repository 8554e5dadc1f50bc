// Tests of arrays, which are typed buffers, and of the pool that they come from.
#include "run/array.h"

#include <type_traits>

#include <gtest/gtest.h>

#include "run/placed.h"
#include "tests/support.h"

#if defined(NDEBUG) && (defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__))
#error "builds with sanitizers run with asserts"
#endif

namespace moesh::run {
namespace {

TEST(View, IsReadAsWhatItHolds) {
  Array array = Pool::create()->allocate({3}, DType::bfloat16);
  array.as<bfloat16>()[1] = bfloat16(2.5f);
  EXPECT_EQ(static_cast<float>(array.as<const bfloat16>()[1]), 2.5f);
  EXPECT_EQ(static_cast<void*>(array.raw()), array.view.data);
  static_assert(backend::dtype_of<float>() == DType::float32 && backend::dtype_of<double>() == DType::float64);
  static_assert(backend::dtype_of<std::int32_t>() == DType::int32 && backend::dtype_of<bool>() == DType::boolean);
}

#ifndef NDEBUG
TEST(ViewDeathTest, IsNotReadAsAnotherType) {
  const Array array = Pool::create()->allocate({3}, DType::bfloat16);
  EXPECT_DEATH(array.as<float>(), "a buffer is read as elements of another type");
  EXPECT_DEATH(array.as<std::int32_t>(), "a buffer is read as elements of another type");
}
#endif

TEST(Array, IsSeenInShapesOfAsManyElements) {
  const Array array = Pool::create()->allocate({2, 6}, DType::float32);
  EXPECT_EQ(reshaped(array, {3, 4}).view.data, array.view.data);
  EXPECT_EQ(test::message_of([&] { reshaped(array, {3, 5}); }), "[2, 6] seen as [3, 5], which has other many elements");
}

// Arrays of any size are allocated and freed in any order. Free memory makes room before more memory is taken.
TEST(Placed, GivesAShardThatOutlivesIt) {
  const auto made = [] {
    Placed placed;
    placed.shards = {Array(), Pool::create()->allocate({3}, DType::float32)};
    return placed;
  };
  static_assert(!std::is_reference_v<decltype(made().any_shard())>);
  const Array& shard = made().any_shard();
  EXPECT_EQ(shard.view.shape, Shape{3});
}

TEST(Pool, HoldsNoMoreThanArraysTookAtOnce) {
  const auto pool = Pool::create();
  std::vector<Array> live;
  std::uint64_t draw = 1;
  for (int i = 0; i < 2000; ++i) {
    draw = draw * 6364136223846793005u + 1442695040888963407u;
    if (live.size() > 20) live.erase(live.begin() + static_cast<std::ptrdiff_t>(draw >> 60));
    live.push_back(pool->allocate({1 + static_cast<std::int64_t>(draw >> 33) % 200'000}, DType::float32));
    live.back().as<float>()[live.back().view.count() - 1] = 1;
    ASSERT_LE(pool->held(), pool->peak_taken());
    ASSERT_GE(pool->peak_taken(), pool->peak_bytes());
  }
  live.clear();
  EXPECT_LE(static_cast<double>(pool->peak_taken()), 1.13 * static_cast<double>(pool->peak_bytes()))
      << "sizes are rounded to an eighth of a power of two";
}

TEST(Pool, GivesAFreeBufferOfTheSameSizeAgain) {
  const auto pool = Pool::create();
  for (const std::int64_t count : {10, 5'000, 1'000'000}) {
    Array array = pool->allocate({count}, DType::float32);
    const void* buffer = array.view.data;
    array = {};
    EXPECT_EQ(pool->allocate({count}, DType::float32).view.data, buffer) << count;
  }
}

}  // namespace
}  // namespace moesh::run
