// What kernels take from the machine besides values.
#pragma once

#include <cstdint>

#include "graph/graph.h"
#include "mesh/mesh.h"

namespace moesh::backend {

// What the threads keep for products, attention and norms. Lists of rows and tokens, and pieces of sums over devices, are not
// counted.
std::int64_t workspace_of(const graph::Graph& graph, const mesh::Mesh& mesh, std::int64_t threads);

}  // namespace moesh::backend
