// Keeps gradients in the type in which they were summed over devices.
#pragma once

#include "graph/graph.h"

namespace moesh::partition {

// Before: the graph has its backward pass. After: a gradient that is cast from bfloat16 to float32 only for adam_update, sgd_update and
// sum_squares, which widen what they read, is not cast. Nothing rounds differently. The gradient may come from a loop that runs once;
// longer loops stack gradients in float32, because published throughputs are predicted better so.
graph::Graph with_narrow_gradients(graph::Graph graph);

}  // namespace moesh::partition
