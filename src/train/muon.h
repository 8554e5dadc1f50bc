// Muon: momentum whose matrices are made orthogonal by Newton-Schulz iterations.
#pragma once

#include "config/settings.h"
#include "graph/builder.h"
#include "graph/matrix_dims.h"

namespace moesh::train {

// The direction of the update, of the parameter's shape.
graph::Tensor muon_direction(graph::Tensor momentum, const graph::MatrixDims& dims,
                             const config::Settings& settings);

// How many layers are orthogonalised at a time, a divisor of `layers`: the smallest that gives each device at least one matrix, so
// that whole matrices are dealt out to the devices; all layers if no smaller number does.
std::int64_t layers_at_a_time(std::int64_t layers, std::int64_t matrices_of_layer, std::int64_t devices);

}  // namespace moesh::train
