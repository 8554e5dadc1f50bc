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

TEST(RmsNorm, OfDotsIsThePlainOne) {
  for (const DType dtype : floating_types()) {
    for (const Shape& shape : std::vector<Shape>{{3, 4, 16}, {2, 1000}, {300, 5}}) {
      const Tensor x = noise(dtype, shape, 1, -3, 3), dy = noise(dtype, shape, 3), sum = noise(dtype, shape, 4);
      const Tensor scale = noise(dtype, {shape.back()}, 2, 0.5, 2);
      const Shape rows(shape.begin(), shape.end() - 1);
      const Tensor squares = noise(wide_of(dtype), rows, 5, 10, 20), dots = noise(wide_of(dtype), rows, 6);
      const RmsNormOf of{1e-6, 2 * shape.back()};
      hold_to_plain({Op::row_dot, {}, {x, x}, {squares}});
      hold_to_plain({Op::row_dot, {}, {x, dy, scale}, {squares}}, 1e-5 * std::sqrt(static_cast<double>(shape.back())));
      hold_to_plain({Op::rms_norm_of_dots, of, {x, scale, squares}, {x}});
      hold_to_plain({Op::rms_norm_grad_of_dots, of, {x, scale, dy, squares, dots}, {x, scale}});
      hold_to_plain({Op::rms_norm_grad_of_dots, of, {x, scale, dy, squares, dots, sum}, {x, scale}});
    }
  }
}

// The norm of rows that are sharded in two pieces, as on two devices, equals the norm of whole rows. Expected values come from the kernels
// for whole rows; in float64, only the order of summation differs.
TEST(RmsNorm, OfRowsInPiecesIsThatOfWholeOnes) {
  constexpr std::int64_t kTall = 3, kFirst = 7, kWidth = 19;
  const Tensor x = noise(DType::float64, {kTall, kWidth}, 1), scale = noise(DType::float64, {kWidth}, 2, 0.5, 2);
  const Tensor dy = noise(DType::float64, {kTall, kWidth}, 3);
  const auto columns = [](const Tensor& of, std::int64_t begin, std::int64_t end) {
    const std::int64_t rows = of.count() / kWidth;
    Tensor made(of.dtype, of.shape.size() == 1 ? Shape{end - begin} : Shape{rows, end - begin});
    for (std::int64_t i = 0; i < made.count(); ++i) made.set(i, of.at(i / (end - begin) * kWidth + begin + i % (end - begin)));
    return made;
  };
  const std::vector<std::pair<std::int64_t, std::int64_t>> pieces{{0, kFirst}, {kFirst, kWidth}};
  Tensor squares = filled(DType::float64, {kTall}, 0), dots = squares;
  for (const auto& [begin, end] : pieces) {
    const Tensor piece = columns(x, begin, end);
    const Tensor of_x = run({Op::row_dot, {}, {piece, piece}, {squares}})[0];
    const Tensor of_dy = run({Op::row_dot, {}, {piece, columns(dy, begin, end), columns(scale, begin, end)}, {dots}})[0];
    for (std::int64_t row = 0; row < kTall; ++row) {
      squares.set(row, squares.at(row) + of_x.at(row));
      dots.set(row, dots.at(row) + of_dy.at(row));
    }
  }
  const Tensor y = run({Op::rms_norm, RmsNormOf{1e-3}, {x, scale}, {x}})[0];
  const Tensors gradients = run({Op::rms_norm_grad, RmsNormOf{1e-3}, {x, scale, dy}, {x, scale}});
  for (const auto& [begin, end] : pieces) {
    const Tensor piece = columns(x, begin, end), its_scale = columns(scale, begin, end);
    const RmsNormOf of{1e-3, kWidth};
    expect_near(run({Op::rms_norm_of_dots, of, {piece, its_scale, squares}, {piece}})[0], columns(y, begin, end), 1e-12);
    const Tensors made = run({Op::rms_norm_grad_of_dots, of, {piece, its_scale, columns(dy, begin, end), squares, dots}, {piece, its_scale}});
    expect_near(made[0], columns(gradients[0], begin, end), 1e-12);
    expect_near(made[1], columns(gradients[1], begin, end), 1e-12);
  }
}

// As in the reference: rows are normalised in float32, cast to bfloat16, and then multiplied by the scale in bfloat16.
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
