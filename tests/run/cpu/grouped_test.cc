#include "tests/run/cpu/kernel_support.h"

namespace moesh::run::test {
namespace {

using graph::GroupedMatmulOf;

// Seven experts, one of them without a row; `R` rows and three more that belong to no one.
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
    hold_to_plain({Op::grouped_outer, GroupedMatmulOf{}, {rows, noise(dtype, {kRows + kSpare, 37}, 3), sizes()}, {Tensor(dtype, {7, 300, 37})}});
  }
}

// Too deep, and too wide, for the packed weights of two experts to stand in one round.
TEST(Grouped, ProductsAreThePlainOnesWhenTheyAreDeepOrTall) {
  const Tensor few = values(DType::int32, {3}, {4, 0, 5});
  hold_to_plain({Op::grouped_matmul, GroupedMatmulOf{false}, {noise(DType::float32, {9, 4500}, 1), noise(DType::float32, {3, 4500, 20}, 2), few}, {Tensor(DType::float32, {9, 20})}}, 3e-5);
  const Tensor many = values(DType::int32, {3}, {4300, 0, 10});
  hold_to_plain({Op::grouped_outer, GroupedMatmulOf{}, {noise(DType::float32, {4310, 6}, 1), noise(DType::float32, {4310, 9}, 2), many}, {Tensor(DType::float32, {3, 6, 9})}}, 3e-5);
}

TEST(Grouped, ARowsBitsDoNotDependOnTheOtherRows) {
  const Tensor rows = noise(DType::float32, {230, 300}, 1);
  const Tensor weights = noise(DType::float32, {7, 300, 37}, 2);
  const Tensor all = run({Op::grouped_matmul, GroupedMatmulOf{}, {rows, weights, sizes()}, {Tensor(DType::float32, {230, 37})}})[0];
  Tensor row(DType::float32, {1, 300});
  const std::size_t at = 100;  // of expert 4
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

struct Routed {
  Tensor ids = draws({50, 3}, 4, 7);
  Tensor order{DType::int32, {150}};
  Tensor sizes{DType::int32, {7}};

  Routed() {
    const Tensors made = run(group(noise(DType::float32, {50, 4}, 1)));
    order = made[1];
    sizes = made[2];
  }
  Call group(const Tensor& x) const {
    return {Op::group_rows, {}, {x, ids}, {Tensor(x.dtype, {150, x.shape[1]}), Tensor(DType::int32, {150}), Tensor(DType::int32, {7})}};
  }
};

TEST(Grouped, SortingAndItsGradientAreThePlainOnes) {
  const Routed routed;
  for (const DType dtype : floating_types()) {
    const Tensor x = noise(dtype, {50, 301}, 1);
    hold_to_plain(routed.group(x));
    hold_to_plain({Op::group_rows_grad, {}, {routed.order, noise(dtype, {150, 301}, 2)}, {x}});
  }
}

TEST(Grouped, CombiningAndItsGradientAreThePlainOnes) {
  const Routed routed;
  for (const DType dtype : floating_types()) {
    for (const DType of_weights : {dtype, DType::float32}) {
      const Tensor rows = noise(dtype, {150, 301}, 1);
      const Tensor weights = noise(of_weights, {50, 3}, 2);
      const Tensor out(dtype, {50, 301});
      hold_to_plain({Op::ungroup_rows, {}, {rows, weights, routed.order}, {out}});
      hold_to_plain({Op::ungroup_rows_grad, {}, {rows, weights, routed.order, noise(dtype, {50, 301}, 3)}, {rows, weights}});
    }
  }
}

TEST(Grouped, GradientsAreSlopes) {
  const Routed routed;
  const DType f64 = DType::float64;
  const Tensor x = noise(f64, {50, 4}, 1), drows = noise(f64, {150, 4}, 2), weights = noise(f64, {50, 3}, 3);
  const Tensor dy = noise(f64, {50, 4}, 4), w = noise(f64, {7, 4, 5}, 5), dout = noise(f64, {150, 5}, 6), bias = noise(f64, {7, 4}, 7);
  hold_to_differences(routed.group(x), {drows}, Op::group_rows_grad, {routed.order, drows}, {0});
  hold_to_differences({Op::ungroup_rows, {}, {drows, weights, routed.order}, {dy}}, {dy}, Op::ungroup_rows_grad, {drows, weights, routed.order, dy}, {0, 1});
  hold_to_differences({Op::grouped_matmul, GroupedMatmulOf{}, {drows, w, routed.sizes}, {dout}}, {dout}, Op::grouped_outer, {drows, dout, routed.sizes}, {1});
  hold_to_differences({Op::grouped_bias, {}, {drows, bias, routed.sizes}, {drows}}, {drows}, Op::grouped_sum, {drows, routed.sizes}, {1});
}

}  // namespace
}  // namespace moesh::run::test
