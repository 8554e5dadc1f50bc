// Rematerialises weight gradients: the update recomputes them, so that they need not be stored for clipping.
#pragma once

#include "graph/graph.h"

namespace moesh::partition {

// Before: a graph for one device, after the update fusions. Clipping needs the norm of all gradients before the first update, so all
// gradients are stored until then. A weight's gradient is the product of the layer's input and a cotangent, which for few tokens are much
// smaller than the gradient. After: for such a weight the backward pass returns only the gradient's sum of squares, computed from the two
// factors, and the update recomputes the gradient, one layer at a time.
graph::Graph with_gradients_made_again(graph::Graph graph);

}  // namespace moesh::partition
