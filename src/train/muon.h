// Muon: momentum whose matrices are made orthogonal by Newton-Schulz iterations.
#pragma once

#include "config/settings.h"
#include "graph/builder.h"
#include "graph/matrix_dims.h"

namespace moesh::train {

// The step along the momentum, of the parameter's shape.
graph::Tensor muon_direction(graph::Tensor momentum, const graph::MatrixDims& dims,
                             const config::Settings& settings);

}  // namespace moesh::train
