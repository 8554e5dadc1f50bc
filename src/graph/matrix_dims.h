// How parameters are read as matrices, for optimizers that treat those apart.
#pragma once

#include <string>
#include <vector>

#include "base/shape.h"

namespace moesh::graph {

// By the roles of a parameter's dims. No matrices are vectors, embeddings and the last projection.
struct MatrixDims {
  bool is_matrix = false;
  std::vector<int> in, out;  // the others are a batch of matrices
};

MatrixDims matrix_dims(const std::string& path, const Shape& shape);

}  // namespace moesh::graph
