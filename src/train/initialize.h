// The values that parameters start from, which are the same on every mesh.
#pragma once

#include <functional>
#include <string>

#include "graph/graph.h"
#include "run/array.h"

namespace moesh::train {

// The key of a parameter comes from the seed and its path, the value of an element from that key and its global index.
run::Array initial_value(const std::string& path, const Shape& shape, DType dtype, const graph::Initializer& initializer,
                         std::int64_t seed, run::Pool& pool, backend::Workers& workers);

// Hands the initial values of all parameters of a graph to `put`, one parameter after the other.
void put_initial_values(const graph::Graph& graph, std::int64_t seed, run::Pool& pool, backend::Workers& workers,
                        const std::function<void(const std::string& path, run::Array value)>& put);

}  // namespace moesh::train
