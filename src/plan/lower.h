// From a partitioned graph to the instructions that run it.
#pragma once

#include "graph/graph.h"
#include "mesh/mesh.h"
#include "plan/plan.h"

namespace moesh::plan {

// Roots become inputs, or state where they are parameters or a result of the same name hands them back. What is written to
// state, to a stack or to a carried value is made there, or copied where its old content is still needed.
Plan lower(const graph::Graph& graph, const mesh::Mesh& mesh);

}  // namespace moesh::plan
