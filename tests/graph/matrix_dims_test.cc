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

// Whether parameters of the role have so many dims.
bool is_of_rank(Role role, std::size_t rank) {
  switch (role) {
    case Role::attention_kernel:
    case Role::attention_fused_kernel:
    case Role::attention_out_kernel:
    case Role::attention_group_kernel:
    case Role::index_kernel:
    case Role::expert_kernel: return rank == 3;
    default: return rank == 2;
  }
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

// As in the reference, the biases of all experts of a layer are a matrix.
TEST(MatrixDims, TakeTheBiasesOfALayersExpertsTogether) {
  expect_dims(Role::expert_bias, {8, 2, 64}, {0}, {2});
  expect_dims(Role::expert_bias, {8, 64}, {0}, {1});
}

// A matrix of a layer is the same whether layers are stacked or not.
TEST(MatrixDims, NeverTakeTheDimOfLayers) {
  for (int role = 0; role <= static_cast<int>(Role::prediction_kernel); ++role) {
    for (const std::size_t rank : {1u, 2u, 3u, 4u}) {
      Shape one(rank, 4), stacked(rank + 1, 4);
      const MatrixDims alone = matrix_dims(static_cast<Role>(role), one), among = matrix_dims(static_cast<Role>(role), stacked);
      ASSERT_EQ(alone.is_matrix, among.is_matrix);
      const auto behind_layers = [](Dims dims) {  // the dim of layers is dim 1
        for (int& dim : dims) dim += dim >= 1 ? 1 : 0;
        return dims;
      };
      if (!alone.is_matrix || !is_of_rank(static_cast<Role>(role), rank)) continue;
      EXPECT_EQ(among.in, behind_layers(alone.in)) << role << " " << rank;
      EXPECT_EQ(among.out, behind_layers(alone.out)) << role << " " << rank;
    }
  }
}

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
