// What kernels take from the machine besides values.
#pragma once

#include <cstdint>

#include "graph/graph.h"
#include "mesh/mesh.h"

namespace moesh::run {

// The most bytes at once: what each thread keeps for products and attention, and what the op that takes most takes while it
// runs. Lists of rows and tokens, and pieces of sums over devices, are not counted.
std::int64_t workspace_of(const graph::Graph& graph, const mesh::Mesh& mesh, std::int64_t threads);

}  // namespace moesh::run
