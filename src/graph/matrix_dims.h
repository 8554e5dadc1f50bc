// How parameters are viewed as matrices, for optimizers that treat matrices separately.
#pragma once

#include <vector>

#include "base/shape.h"
#include "sharding/role.h"

namespace moesh::graph {

// Vectors, the embedding and the output projection do not count as matrices.
struct MatrixDims {
  bool is_matrix = false;
  std::vector<int> in, out;  // the other dims are a batch of matrices
};

MatrixDims matrix_dims(sharding::Role role, const Shape& shape);

}  // namespace moesh::graph
