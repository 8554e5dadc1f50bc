// Gradients of weights that are made a second time, not kept.
#pragma once

#include "graph/graph.h"

namespace moesh::partition {

// Of a graph for one device, once its updates are fused. Clipping needs the norm of all gradients before the first update. The gradient
// of a weight is a product of what its layer was given and of a cotangent, which for few tokens are much smaller than it. Then the
// backward pass gives the sum of the gradient's squares alone, and the update makes the gradient again, a layer at a time.
graph::Graph with_gradients_made_again(graph::Graph graph);

}  // namespace moesh::partition
