// Adds a value to another one as soon as it is made.
#pragma once

#include "graph/graph.h"

namespace moesh::partition {

// Before: the graph has its backward pass, stacks have the stacked dim first, and sums of gradients over microbatches stand behind the
// backward pass. After: a sum of a value that nothing else reads, and of one that exists before it and ends there, stands behind the node
// that makes the value. If that is a loop that stacks the value, the loop takes slices of the other one and stacks the sums. So a device
// that adds up gradients holds one of each weight, instead of the sum and the latest gradient.
graph::Graph with_early_sums(graph::Graph graph);

}  // namespace moesh::partition
