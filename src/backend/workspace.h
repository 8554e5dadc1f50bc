// The scratch memory that kernels need besides the values of a plan.
#pragma once

#include <cstdint>

#include "graph/graph.h"
#include "mesh/mesh.h"

namespace moesh::backend {

// The scratch memory that all threads keep for products, attention, norms and vocabulary losses. Lists of rows and tokens, and the pieces
// in which sums over devices are made, are not counted.
std::int64_t workspace_of(const graph::Graph& graph, const mesh::Mesh& mesh, std::int64_t threads);

}  // namespace moesh::backend
