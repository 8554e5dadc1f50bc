// Which parameters are matrices, and along which dims.
#include <gtest/gtest.h>

#include "graph/matrix_dims.h"

namespace moesh::graph {
namespace {

using Dims = std::vector<int>;

void expect_dims(const std::string& path, const Shape& shape, const Dims& in, const Dims& out) {
  const MatrixDims dims = matrix_dims(path, shape);
  EXPECT_TRUE(dims.is_matrix) << path;
  EXPECT_EQ(dims.in, in) << path;
  EXPECT_EQ(dims.out, out) << path;
}

TEST(MatrixDims, AreTheFirstAndTheLastOfAPlainKernel) {
  expect_dims("decoder/layers/mlp/wi_0/kernel", {64, 2, 128}, {0}, {2});
  expect_dims("decoder/layers/self_attention/wq_a/kernel", {64, 2, 16}, {0}, {2});
  expect_dims("decoder/layers/MoeBlock_0/gate/kernel", {64, 2, 8}, {0}, {2});
}

TEST(MatrixDims, LeaveOutTheExperts) {
  expect_dims("decoder/layers/MoeBlock_0/wi_0", {8, 2, 64, 128}, {2}, {3});
  expect_dims("decoder/layers/GptOssMlp/wo", {8, 2, 128, 64}, {2}, {3});
}

TEST(MatrixDims, TakeHeadsAndTheirWidthTogether) {
  expect_dims("decoder/layers/self_attention/query/kernel", {64, 2, 4, 16}, {0}, {2, 3});
  expect_dims("decoder/layers/self_attention/wkv_b/kernel", {16, 2, 4, 32}, {0}, {2, 3});
  expect_dims("decoder/layers/self_attention/out/kernel", {4, 2, 16, 64}, {0, 2}, {3});
}

TEST(MatrixDims, AreNotThereForVectorsAndForWhatTouchesTheVocabulary) {
  for (const char* path : {"token_embedder/embedding", "decoder/logits_dense/kernel", "decoder/decoder_norm/scale",
                           "decoder/layers/MoeBlock_0/gate/bias", "decoder/layers/GptOssAttention/sinks"}) {
    EXPECT_FALSE(matrix_dims(path, {64, 128}).is_matrix) << path;
  }
}

}  // namespace
}  // namespace moesh::graph
