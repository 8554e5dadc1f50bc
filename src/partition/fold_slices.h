// Lets products read a part of a weight in place.
#pragma once

#include "graph/graph.h"

namespace moesh::partition {

// Before: the graph has no backward pass, and its values have the shapes of one device. After, in the graph and in the bodies of its
// repeats: a matrix product whose second operand was a slice of a parameter, or of what a body is given, reads that part itself, and
// no copy of it is made.
graph::Graph with_slices_folded(graph::Graph graph);

}  // namespace moesh::partition
