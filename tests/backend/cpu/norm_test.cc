#include <cmath>

#include "tests/backend/cpu/kernel_support.h"

namespace moesh::backend::test {
namespace {

using graph::RmsNormOf;

TEST(Softmax, IsThePlainOne) {
  for (const DType dtype : floating_types()) {
    for (const std::int64_t width : {1, 7, 16, 1000}) {
      const Tensor x = noise(dtype, {5, 3, width}, 1, -8, 8);
      const Tensor y = run_plain({Op::softmax, {}, {x}, {x}})[0];
      hold_to_plain({Op::softmax, {}, {x}, {x}});
      hold_to_plain({Op::softmax_grad, {}, {y, noise(dtype, x.shape, 2)}, {x}});
    }
  }
}

TEST(Softmax, OfFarApartNumbersIsFinite) {
  const Tensor y = run({Op::softmax, {}, {values(DType::float32, {3}, {1e4, 0, -1e4})}, {Tensor(DType::float32, {3})}})[0];
  EXPECT_EQ(y.bytes, values(DType::float32, {3}, {1, 0, 0}).bytes);
}

TEST(Softmax, GradientIsItsSlope) {
  const Tensor x = noise(DType::float64, {3, 19}, 1, -2, 2);
  const Tensor dy = noise(DType::float64, {3, 19}, 2);
  const Call call{Op::softmax, {}, {x}, {x}};
  hold_to_differences(call, {dy}, Op::softmax_grad, {run(call)[0], dy}, {0});
}

TEST(RmsNorm, IsThePlainOne) {
  for (const DType dtype : floating_types()) {
    for (const Shape& shape : std::vector<Shape>{{3, 4, 16}, {2, 1000}, {300, 5}}) {
      const Tensor x = noise(dtype, shape, 1, -3, 3);
      const Tensor scale = noise(dtype, {shape.back()}, 2, 0.5, 2);
      hold_to_plain({Op::rms_norm, RmsNormOf{1e-6}, {x, scale}, {x}});
      hold_to_plain({Op::rms_norm_grad, RmsNormOf{1e-6}, {x, scale, noise(dtype, shape, 3)}, {x, scale}});
      hold_to_plain({Op::rms_norm_grad, RmsNormOf{1e-6}, {x, scale, noise(dtype, shape, 3), noise(dtype, shape, 4)}, {x, scale}});
    }
  }
}

TEST(RmsNorm, GradientIsItsSlope) {
  const Tensor x = noise(DType::float64, {7, 19}, 1);
  const Tensor scale = noise(DType::float64, {19}, 2, 0.5, 2);
  const Tensor dy = noise(DType::float64, {7, 19}, 3);
  hold_to_differences({Op::rms_norm, RmsNormOf{1e-3}, {x, scale}, {x}}, {dy}, Op::rms_norm_grad, {x, scale, dy}, {0, 1});
}

// The reference normalises in float32, casts, and multiplies in bfloat16.
TEST(RmsNorm, RoundsBeforeItScales) {
  const Tensor x = noise(DType::bfloat16, {1, 64}, 1);
  const Tensor scale = noise(DType::bfloat16, {64}, 2, 0.5, 2);
  double squares = 0;
  for (std::int64_t i = 0; i < 64; ++i) squares += x.at(i) * x.at(i);
  const double inverse = 1 / std::sqrt(squares / 64 + 1e-6);
  Tensor expected(DType::bfloat16, {1, 64});
  for (std::int64_t i = 0; i < 64; ++i) {
    expected.set(i, x.at(i) * inverse);
    expected.set(i, expected.at(i) * scale.at(i));
  }
  EXPECT_EQ(run({Op::rms_norm, RmsNormOf{1e-6}, {x, scale}, {x}})[0].bytes, expected.bytes);
}

}  // namespace
}  // namespace moesh::backend::test
