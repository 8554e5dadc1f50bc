// How parameters are read as matrices, for optimizers that treat those apart.
#pragma once

#include <vector>

#include "base/shape.h"
#include "sharding/role.h"

namespace moesh::graph {

// No matrices are vectors, the embedding and the output projection.
struct MatrixDims {
  bool is_matrix = false;
  std::vector<int> in, out;  // the others are a batch of matrices
};

MatrixDims matrix_dims(sharding::Role role, const Shape& shape);

}  // namespace moesh::graph
