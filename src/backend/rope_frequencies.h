// The angle by which each pair of a rotary embedding turns a position.
#pragma once

#include <cstdint>

#include "backend/scratch_list.h"
#include "graph/graph.h"

namespace moesh::backend {

// One for each pair of `dim` elements, in radians a position.
ScratchList<double> rope_frequencies(const graph::RopeOf& of, std::int64_t dim);

// What the turned values are multiplied with.
double rope_scale(const graph::RopeOf& of);

}  // namespace moesh::backend
