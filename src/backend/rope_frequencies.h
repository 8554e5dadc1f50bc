// The frequencies of a rotary embedding, by which each pair of elements is rotated per position.
#pragma once

#include <cstdint>

#include "backend/scratch_list.h"
#include "graph/graph.h"

namespace moesh::backend {

// One for each pair of `dim` elements, in radians per position.
ScratchList<double> rope_frequencies(const graph::RopeOf& of, std::int64_t dim);

// The factor that rotated values are multiplied by.
double rope_scale(const graph::RopeOf& of);

}  // namespace moesh::backend
