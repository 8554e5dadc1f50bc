// Loops of one iteration, such as the backward pass of a single layer.
#pragma once

#include "graph/graph.h"

namespace moesh::partition {

// Before: the graph is partitioned and has its backward pass. After: there are no loops of one iteration, their nodes stand in their place,
// so that what a loop would hold to its end, such as gradients, is held no longer than necessary. And what such a loop gathers is not
// gathered again by a later one: mainly weights, which the backward pass of the layer needs again. Of loops with several iterations, the
// gathered weights of all layers would be held.
graph::Graph without_single_loops(graph::Graph graph);

}  // namespace moesh::partition
