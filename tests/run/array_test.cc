// Typed access to buffers.
#include "run/array.h"

#include <gtest/gtest.h>

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
  static_assert(dtype_of<float>() == DType::float32 && dtype_of<double>() == DType::float64);
  static_assert(dtype_of<std::int32_t>() == DType::int32 && dtype_of<bool>() == DType::boolean);
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

}  // namespace
}  // namespace moesh::run
