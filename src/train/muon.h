// Muon: momentum whose matrices are made orthogonal by Newton-Schulz iterations.
#pragma once

#include <string>

#include "config/settings.h"
#include "graph/builder.h"

namespace moesh::train {

// How a parameter is read as matrices, by the roles of its dims; nothing for one that Adam updates.
struct MuonDims {
  bool is_matrix = false;
  std::vector<int> in, out;  // the others are a batch of matrices
};

MuonDims muon_dims(const std::string& path, const Shape& shape);

// The step along the momentum, of the parameter's shape.
graph::Tensor muon_direction(graph::Tensor momentum, const MuonDims& dims, const config::Settings& settings);

}  // namespace moesh::train
