// Muon: momentum whose matrices are made orthogonal by Newton-Schulz iterations.
#pragma once

#include "config/settings.h"
#include "graph/builder.h"
#include "graph/matrix_dims.h"

namespace moesh::train {

// The step along the momentum, of the parameter's shape.
graph::Tensor muon_direction(graph::Tensor momentum, const graph::MatrixDims& dims,
                             const config::Settings& settings);

// How many layers' matrices are made orthogonal at a time, a divisor of `layers`: one where that gives each device a matrix, else
// as few as do, so that matrices are dealt out to the devices whole.
std::int64_t layers_at_a_time(std::int64_t layers, std::int64_t matrices_of_layer, std::int64_t devices);

}  // namespace moesh::train
