// The values that parameters start from; the same on every mesh.
#pragma once

#include <string>

#include "graph/graph.h"
#include "run/array.h"

namespace moesh::train {

// A key a parameter comes from the seed and its path, an element's value from the key and its global index.
run::Array initial_value(const std::string& path, const Shape& shape, DType dtype, const graph::Initializer& initializer,
                         std::int64_t seed, run::Pool& pool, backend::Workers& workers);

}  // namespace moesh::train
