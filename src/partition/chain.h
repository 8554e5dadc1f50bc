// Ops on each element that follow each other, or that read the same values, become one, which goes over memory once.
#pragma once

#include "graph/graph.h"

namespace moesh::partition {

// Of a graph that has its backward pass and is laid out. What a step makes is rounded as before, so nothing changes but where it lies. No
// more is held than before.
graph::Graph with_chains(graph::Graph graph);

}  // namespace moesh::partition
