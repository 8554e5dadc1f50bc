// Kernels of keys that are made of several tokens.
#include "graph/pooling.h"
#include "tests/backend/cpu/kernel_support.h"

namespace moesh::backend::test {
namespace {

using graph::WindowsOf;

// Windows of several tokens and of one, narrow and wide values, values of several dims, and no windows.
std::vector<Shape> all_values() { return {{2, 5, 4, 16}, {1, 3, 128, 70}, {3, 7, 1, 5}, {2, 2, 8, 3, 20}, {1, 40, 6, 1}, {2, 0, 4, 8}}; }

Call pools(DType dtype, DType of_gates, const Shape& values) {
  Shape shape = values;
  shape.erase(shape.begin() + 2);
  return {Op::pool, {}, {noise(dtype, values, 1), noise(of_gates, values, 2, -4, 4)}, {Tensor(dtype, shape)}};
}

Call gradient_of_pools(const Call& call) {
  return {Op::pool_grad,
          {},
          {call.operands[0], call.operands[1], noise(call.results[0].dtype, call.results[0].shape, 3)},
          {call.operands[0], call.operands[1]}};
}

// A gate of -1e30, which keeps a value out, in the first window of each row.
Call with_closed_gates(Call call) {
  const Shape& values = call.operands[0].shape;
  const std::int64_t of_window = elements(values) / std::max<std::int64_t>(1, values[0] * values[1]), of_value = of_window / values[2];
  if (values[2] == 1 || values[1] == 0) return call;
  for (std::int64_t row = 0; row < values[0]; ++row) {
    for (std::int64_t i = 0; i < of_value; ++i) call.operands[1].set(row * values[1] * of_window + i, -1e30);
  }
  return call;
}

TEST(Pool, AndItsGradientAreThePlainOnes) {
  for (const Shape& values : all_values()) {
    for (const DType dtype : floating_types()) {
      for (const DType of_gates : {dtype, dtype == DType::bfloat16 ? DType::float32 : dtype}) {
        for (const Call& call : {pools(dtype, of_gates, values), with_closed_gates(pools(dtype, of_gates, values))}) {
          hold_to_plain(call);
          hold_to_plain(gradient_of_pools(call), dtype == DType::bfloat16 ? 0.02 : 0);
        }
      }
    }
  }
}

TEST(Pool, HasGradientsThatAreItsSlopes) {
  for (const Shape& values : {Shape{2, 3, 4, 5}, Shape{1, 2, 3, 2, 3}}) {
    const Call call = pools(DType::float64, DType::float64, values), back = gradient_of_pools(call);
    hold_to_differences(call, {back.operands.back()}, Op::pool_grad, back.operands, {0, 1});
  }
}

TEST(Pool, DoesNotSeeWhatMemoryHolds) {
  const Call call = pools(DType::float32, DType::float32, {2, 3, 4, 70});
  expect_not_to_see_what_memory_holds(call);
  expect_not_to_see_what_memory_holds(gradient_of_pools(call));
}

Call windows(std::int64_t tokens, const Tensor& positions, const Tensor& segments) {
  const Shape of_windows{positions.shape[0], positions.shape[1] / tokens};
  const Tensor whole(DType::int32, of_windows);
  return {Op::windows, WindowsOf{tokens}, {positions, segments}, {whole, whole, whole, Tensor(DType::float32, of_windows)}};
}

TEST(Windows, AreThePlainOnes) {
  for (const std::int64_t tokens : {1, 3, 4, 50, 60}) {
    hold_to_plain(windows(tokens, draws({3, 50}, 1, 9), draws({3, 50}, 2, 2)));
  }
}

// Two texts, of five tokens and of six, and one token that makes no window.
TEST(Windows, KnowTheirTexts) {
  const Tensor positions = values(DType::int32, {1, 13}, {0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 5, 6, 7});
  const Tensor segments = values(DType::int32, {1, 13}, {1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2});
  const Tensors made = run(windows(2, positions, segments));
  EXPECT_EQ(made[0].bytes, values(DType::int32, {1, 6}, {0, 2, 4, 1, 3, 5}).bytes);
  EXPECT_EQ(made[1].bytes, values(DType::int32, {1, 6}, {1, 3, 5, 2, 4, 6}).bytes);
  EXPECT_EQ(made[2].bytes, values(DType::int32, {1, 6}, {1, 1, graph::kNoSegment, 2, 2, 2}).bytes);
  EXPECT_EQ(made[3].bytes, values(DType::float32, {1, 6}, {0, 1, 1, 0, 1, 1}).bytes);
}

Call new_windows(const graph::NewWindowsOf& of, std::int64_t windows, const Tensor& positions, const Tensor& segments) {
  const Shape of_windows{positions.shape[0], windows};
  const Tensor whole(DType::int32, of_windows);
  return {Op::new_windows, of, {positions, segments}, {Tensor(DType::int32, positions.shape), whole, whole, Tensor(DType::float32, of_windows)}};
}

TEST(NewWindows, AreThePlainOnes) {
  for (const std::int64_t tokens : {1, 3, 4, 50}) {
    hold_to_plain(new_windows({tokens, 5}, 3, draws({4, 7}, 1, 30), draws({4, 7}, 2, 2)));
  }
}

// A row within its second window and one that begins, of three windows in all. The last token of the second row is padding.
TEST(NewWindows, BeginWithThatOfTheFirstToken) {
  const Tensor positions = values(DType::int32, {2, 3}, {7, 8, 9, 0, 1, 2});
  const Tensor segments = values(DType::int32, {2, 3}, {3, 3, 3, 1, 1, 0});
  const Tensors made = run(new_windows({4, 3}, 3, positions, segments));
  EXPECT_EQ(made[0].bytes, values(DType::int32, {2, 3}, {7, 8, 9, 0, 1, graph::kNoSlot}).bytes);
  EXPECT_EQ(made[1].bytes, values(DType::int32, {2, 3}, {1, 2, graph::kNoSlot, 0, 1, 2}).bytes);
  EXPECT_EQ(made[2].bytes, values(DType::int32, {2, 3}, {4, 8, 12, 0, 4, 8}).bytes);
  EXPECT_EQ(made[3].bytes, values(DType::float32, {2, 3}, {1, 1, 1, 0, 1, 1}).bytes);
}

// New tokens at consecutive positions, in the second row one and padding, with windows of four.
Call window_rows(DType dtype, std::int64_t before, std::int64_t windows, const Shape& rest) {
  const auto shape = [&](Shape first) {
    first.insert(first.end(), rest.begin(), rest.end());
    return first;
  };
  return {Op::window_rows,
          graph::WindowRowsOf{before},
          {noise(dtype, shape({3, 8}), 1), noise(dtype, shape({3, 5}), 2),
           values(DType::int32, {3, 5}, {11, 12, 13, 14, 15, 6, 7, 7, 7, 7, 0, 1, 2, 3, 4})},
          {Tensor(dtype, shape({3, windows, 4}))}};
}

TEST(WindowRows, AreThePlainOnesOfAnyType) {
  for (const DType dtype : floating_types()) {
    for (const Shape& rest : {Shape{}, Shape{5}, Shape{2, 70}}) {
      for (const std::int64_t before : {0, 1}) hold_to_plain(window_rows(dtype, before, 2 + before, rest));
    }
  }
}

TEST(WindowRows, AreThoseOfEarlierTokensThenOfNewOnes) {
  const Tensor kept = values(DType::float32, {1, 4}, {108, 109, 110, 107});  // the last tokens, at slots that wrap
  const Tensor rows = values(DType::float32, {1, 3}, {11, 12, 0});
  const Call call{Op::window_rows,
                  graph::WindowRowsOf{0},
                  {kept, rows, values(DType::int32, {1, 3}, {11, 12, 12})},
                  {Tensor(DType::float32, {1, 2, 4})}};
  expect_near(run(call)[0], values(DType::float32, {1, 2, 4}, {108, 109, 110, 11, 12, 0, 0, 0}), 0);
  Call first = call;
  first.operands[2] = values(DType::int32, {1, 3}, {0, 1, 2});
  first.operands[0] = values(DType::float32, {1, 8}, {1, 2, 3, 4, 5, 6, 7, 8});
  first.attributes = graph::WindowRowsOf{1};
  expect_near(run(first)[0], values(DType::float32, {1, 2, 4}, {0, 0, 0, 0, 11, 12, 0, 0}), 0);
}

TEST(WindowRows, DoNotSeeWhatMemoryHolds) { expect_not_to_see_what_memory_holds(window_rows(DType::float32, 1, 3, {3})); }

}  // namespace
}  // namespace moesh::backend::test
