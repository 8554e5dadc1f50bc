// Tests which parameters are matrices, and which of their dims are the input and the output.
#include <gtest/gtest.h>

#include "graph/matrix_dims.h"

namespace moesh::graph {
namespace {

using sharding::Role;
using Dims = std::vector<int>;

void expect_dims(Role role, const Shape& shape, const Dims& in, const Dims& out) {
  const MatrixDims dims = matrix_dims(role, shape);
  EXPECT_TRUE(dims.is_matrix) << static_cast<int>(role);
  EXPECT_EQ(dims.in, in) << static_cast<int>(role);
  EXPECT_EQ(dims.out, out) << static_cast<int>(role);
}

TEST(MatrixDims, AreTheFirstAndTheLastOfAPlainKernel) {
  for (const Role role : {Role::mlp_kernel, Role::shared_expert_kernel, Role::attention_down_kernel, Role::router_kernel}) {
    expect_dims(role, {64, 2, 128}, {0}, {2});
    expect_dims(role, {64, 128}, {0}, {1});
  }
}

TEST(MatrixDims, AreThoseOfEachExpertAndLayer) {
  expect_dims(Role::expert_kernel, {8, 2, 64, 128}, {2}, {3});
  expect_dims(Role::expert_kernel, {8, 64, 128}, {1}, {2});
}

// As in the reference, the biases of experts count as kernels.
TEST(MatrixDims, TakeTheBiasesOfExpertsForMatricesToo) { expect_dims(Role::expert_bias, {8, 2, 64}, {1}, {2}); }

TEST(MatrixDims, TakeHeadsAndTheirWidthTogether) {
  expect_dims(Role::attention_kernel, {64, 2, 4, 16}, {0}, {2, 3});
  expect_dims(Role::attention_kernel, {64, 4, 16}, {0}, {1, 2});
  expect_dims(Role::attention_out_kernel, {4, 2, 16, 64}, {0, 2}, {3});
  expect_dims(Role::attention_out_kernel, {4, 16, 64}, {0, 1}, {2});
}

TEST(MatrixDims, AreNotThereForVectorsAndForWhatTouchesTheVocabulary) {
  for (const Role role : {Role::embedding, Role::output_projection, Role::norm_scale, Role::attention_norm_scale,
                          Role::attention_bias, Role::attention_sinks, Role::router_bias, Role::none}) {
    EXPECT_FALSE(matrix_dims(role, {64, 128}).is_matrix) << static_cast<int>(role);
  }
}

}  // namespace
}  // namespace moesh::graph
