// What loops hand on twice.
#pragma once

#include "graph/graph.h"

namespace moesh::partition {

// Before: the graph is partitioned, blocks stand apart, and the graph has its backward pass. After: no loop or block stacks a value twice,
// takes a value twice, or moves a value twice to where it is wanted. Constraints of several names on one value, such as what queries and
// keys are made of, may all be saved for the backward pass, and turn out to lie alike.
graph::Graph without_doubles(graph::Graph graph);

}  // namespace moesh::partition
