// Lowers a partitioned graph to a plan, the instructions that run it.
#pragma once

#include "graph/graph.h"
#include "mesh/mesh.h"
#include "plan/plan.h"

namespace moesh::plan {

// Before: every value has a spec, and multi-device ops are collectives (graph::collective_of). After: every value has a place in a buffer,
// repeats are loops, and regions are inlined. Roots become inputs, or state if they are parameters or have a result of the same name,
// their next value. Values that go to state, to a stack or to a carried value are made in place, or copied there if the old content is
// still needed.
Plan lower(const graph::Graph& graph, const mesh::Mesh& mesh);

}  // namespace moesh::plan
