// The direction of Muon's step.
#include <cmath>

#include "tests/graph/graph_support.h"
#include "tests/support.h"
#include "train/muon.h"

namespace moesh::train {
namespace {

using graph::test::noise;
using Matrix = graph::test::Numbers;

std::vector<Matrix> directions(const Matrix& momentum, const graph::MatrixDims& dims, const std::string& request = "") {
  graph::Builder builder;
  const graph::Tensor x = graph::test::input_like(builder, "x", momentum);
  builder.mark_result(muon_direction(x, dims, config::load(test::words_of(request)).settings));
  return graph::test::run_graph(builder.graph(), {momentum});
}

// Five iterations leave singular values between 0.68 and 1.14, so the columns of a tall matrix are nearly orthonormal.
TEST(MuonDirection, HasNearlyOrthonormalColumns) {
  const std::int64_t rows = 9, columns = 4;
  const Matrix made = directions(noise(DType::float64, {rows, columns}, 1), {true, {0}, {1}})[0];
  for (std::int64_t a = 0; a < columns; ++a) {
    for (std::int64_t b = 0; b < columns; ++b) {
      double dot = 0;
      for (std::int64_t i = 0; i < rows; ++i) dot += made.at(i * columns + a) * made.at(i * columns + b);
      EXPECT_NEAR(dot, a == b ? 1 : 0, a == b ? 0.55 : 0.35);
    }
  }
}

TEST(MuonDirection, DoesNotDependOnTheSizeOfTheMomentum) {
  const Matrix momentum = noise(DType::float64, {5, 3, 7}, 1);
  Matrix larger = momentum;
  for (std::int64_t i = 0; i < larger.count(); ++i) larger.set(i, 1000 * momentum.at(i));
  const graph::MatrixDims dims{true, {0}, {2}};
  Matrix a = directions(momentum, dims)[0];
  EXPECT_LT(backend::test::distance(directions(larger, dims)[0], a), 1e-6);
}

// The matrices of a batch do not influence each other.
TEST(MuonDirection, IsOneForEachMatrixOfABatch) {
  const Matrix both = noise(DType::float64, {2, 3, 5}, 1);
  Matrix first(DType::float64, {1, 3, 5});
  for (std::int64_t i = 0; i < first.count(); ++i) first.set(i, both.at(i));
  const Matrix of_both = directions(both, {true, {1}, {2}})[0];
  const Matrix alone = directions(first, {true, {1}, {2}})[0];
  for (std::int64_t i = 0; i < alone.count(); ++i) EXPECT_NEAR(of_both.at(i), alone.at(i), 1e-14);
}

// A wide matrix is scaled by the root of columns / rows, unless the size of the update is given.
TEST(MuonDirection, IsScaledByTheShapeOrToTheSizeAskedFor) {
  const Matrix momentum = noise(DType::float64, {4, 9}, 1);
  const graph::MatrixDims dims{true, {0}, {1}};
  const Matrix by_shape = directions(momentum, dims)[0];
  const Matrix by_size = directions(momentum, dims, "muon_consistent_rms=0.2")[0];
  for (std::int64_t i = 0; i < momentum.count(); ++i) {
    EXPECT_NEAR(by_shape.at(i) / std::sqrt(9.0 / 4), by_size.at(i) / (0.2 * std::sqrt(9.0)), 1e-12);
  }
}

}  // namespace
}  // namespace moesh::train
