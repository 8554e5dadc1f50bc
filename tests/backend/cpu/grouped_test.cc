#include "tests/backend/cpu/kernel_support.h"

namespace moesh::backend::test {
namespace {

using graph::GroupedMatmulOf;
using graph::GroupedOuterOf;

// Seven experts, one of them without rows; kRows rows, and kSpare more that belong to no expert.
const std::vector<double> kSizes{3, 40, 0, 1, 170, 14, 2};
constexpr std::int64_t kRows = 230;
constexpr std::int64_t kSpare = 3;

Tensor sizes() { return values(DType::int32, {7}, kSizes); }

TEST(Grouped, ProductsAreThePlainOnes) {
  for (const DType dtype : floating_types()) {
    const Tensor rows = noise(dtype, {kRows + kSpare, 300}, 1);
    const Tensor out(dtype, {kRows + kSpare, 37});
    hold_to_plain({Op::grouped_matmul, GroupedMatmulOf{false}, {rows, noise(dtype, {7, 300, 37}, 2), sizes()}, {out}});
    hold_to_plain({Op::grouped_matmul, GroupedMatmulOf{true}, {rows, noise(dtype, {7, 37, 300}, 2), sizes()}, {out}});
    for (const bool transpose : {false, true}) {
      const Tensor weights = noise(dtype, transpose ? Shape{7, 37, 300} : Shape{7, 300, 37}, 2);
      hold_to_plain({Op::grouped_matmul, GroupedMatmulOf{transpose}, {rows, weights, sizes(), noise(dtype, out.shape, 4)}, {out}});
    }
    hold_to_plain({Op::grouped_outer, GroupedOuterOf{}, {rows, noise(dtype, {kRows + kSpare, 37}, 3), sizes()}, {Tensor(dtype, {7, 300, 37})}});
  }
}

TEST(Grouped, ProductsOfBfloat16MayHaveFloat32Results) {
  const DType low = DType::bfloat16, wide = DType::float32;
  const Tensor rows = noise(low, {kRows + kSpare, 300}, 1), weights = noise(low, {7, 300, 37}, 2), drows = noise(low, {kRows + kSpare, 37}, 3);
  for (const Call& call : {Call{Op::grouped_matmul, GroupedMatmulOf{}, {rows, weights, sizes()}, {Tensor(wide, {kRows + kSpare, 37})}},
                           Call{Op::grouped_outer, GroupedOuterOf{}, {rows, drows, sizes()}, {Tensor(wide, {7, 300, 37})}}}) {
    hold_to_plain(call);
    Call same = call;
    for (const std::size_t i : {0, 1}) same.operands[i] = converted(call.operands[i], wide);
    expect_near(run(call)[0], run(same)[0], 1e-6);  // bfloat16 instructions accumulate in another order
  }
}

// Covers depths of several chunks: the depth of the weights, and the number of rows for the outer product. float32 sums of thousands of
// terms need a wider tolerance than sums of some hundred.
TEST(Grouped, ProductsAreThePlainOnesWhenTheyAreDeepOrTall) {
  const Tensor few = values(DType::int32, {3}, {4, 0, 5});
  hold_to_plain({Op::grouped_matmul, GroupedMatmulOf{false}, {noise(DType::float32, {9, 4500}, 1), noise(DType::float32, {3, 4500, 20}, 2), few}, {Tensor(DType::float32, {9, 20})}}, 3e-5);
  const Tensor many = values(DType::int32, {3}, {4300, 0, 10});
  hold_to_plain({Op::grouped_outer, GroupedOuterOf{}, {noise(DType::float32, {4310, 6}, 1), noise(DType::float32, {4310, 9}, 2), many}, {Tensor(DType::float32, {3, 6, 9})}}, 3e-5);
}

// Sums of bfloat16 numbers are float32, and rounded at the end only; the tolerance is that of rounding.
TEST(Grouped, ProductsOfBfloat16AreThePlainOnesWhenTheyAreDeepOrTall) {
  const DType low = DType::bfloat16;
  const Tensor few = values(DType::int32, {3}, {4, 0, 45}), many = values(DType::int32, {3}, {4300, 0, 10});
  const Tensor rows = noise(low, {49, 4500}, 1);
  for (const bool transpose : {false, true}) {
    const Tensor weights = noise(low, transpose ? Shape{3, 40, 4500} : Shape{3, 4500, 40}, 2);
    for (const DType of_result : {low, DType::float32})
      hold_to_plain({Op::grouped_matmul, GroupedMatmulOf{transpose}, {rows, weights, few}, {Tensor(of_result, {49, 40})}});
    hold_to_plain({Op::grouped_matmul, GroupedMatmulOf{transpose}, {rows, weights, few, noise(low, {49, 40}, 4)}, {Tensor(low, {49, 40})}});
  }
  for (const DType of_result : {low, DType::float32}) {
    hold_to_plain({Op::grouped_outer, GroupedOuterOf{}, {noise(low, {4310, 70}, 1), noise(low, {4310, 40}, 2), many},
                   {Tensor(of_result, {3, 70, 40})}});
  }
}

// Sums of many rows that wait for the next chunk of the depth are more than a thread has room for, even those of one block of columns.
TEST(Grouped, ProductsAreThePlainOnesWhenTheyAreDeepAndTall) {
  const Tensor sizes = values(DType::int32, {2}, {16900, 100});
  for (const DType dtype : {DType::float32, DType::bfloat16}) {
    const Tensor rows = noise(dtype, {17000, 1040}, 1), weights = noise(dtype, {2, 1040, 9}, 2);
    hold_to_plain({Op::grouped_matmul, GroupedMatmulOf{}, {rows, weights, sizes}, {Tensor(dtype, {17000, 9})}}, dtype == DType::float32 ? 3e-5 : 0);
  }
}

TEST(Grouped, ARowsBitsDoNotDependOnTheOtherRows) {
  const Tensor rows = noise(DType::float32, {230, 300}, 1);
  const Tensor weights = noise(DType::float32, {7, 300, 37}, 2);
  const Tensor all = run({Op::grouped_matmul, GroupedMatmulOf{}, {rows, weights, sizes()}, {Tensor(DType::float32, {230, 37})}})[0];
  Tensor row(DType::float32, {1, 300});
  const std::size_t at = 100;  // a row of expert 4
  std::memcpy(row.bytes.data(), rows.bytes.data() + at * row.bytes.size(), row.bytes.size());
  const Tensor alone = run({Op::grouped_matmul, GroupedMatmulOf{}, {row, weights, values(DType::int32, {7}, {0, 0, 0, 0, 1, 0, 0})}, {Tensor(DType::float32, {1, 37})}})[0];
  EXPECT_EQ(0, std::memcmp(alone.bytes.data(), all.bytes.data() + at * alone.bytes.size(), alone.bytes.size()));
}

TEST(Grouped, BiasesAndTheirSumsAreThePlainOnes) {
  for (const DType dtype : floating_types()) {
    const Tensor rows = noise(dtype, {kRows + kSpare, 300}, 1);
    hold_to_plain({Op::grouped_bias, {}, {rows, noise(dtype, {7, 300}, 2), sizes()}, {rows}});
    hold_to_plain({Op::grouped_sum, {}, {rows, sizes()}, {Tensor(dtype, {7, 300})}});
  }
}

TEST(Grouped, GradientsAreSlopes) {
  const DType f64 = DType::float64;
  const Tensor rows = noise(f64, {kRows, 4}, 2), weights = noise(f64, {7, 4, 5}, 5), bias = noise(f64, {7, 4}, 7);
  const Tensor dout = noise(f64, {kRows, 5}, 6), drows = noise(f64, {kRows, 4}, 8);
  hold_to_differences({Op::grouped_matmul, GroupedMatmulOf{}, {rows, weights, sizes()}, {dout}}, {dout}, Op::grouped_outer, {rows, dout, sizes()}, {1});
  hold_to_differences({Op::grouped_bias, {}, {rows, bias, sizes()}, {drows}}, {drows}, Op::grouped_sum, {drows, sizes()}, {1});
}

}  // namespace
}  // namespace moesh::backend::test
