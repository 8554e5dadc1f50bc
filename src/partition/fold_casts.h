// Products that make what a cast would make of them.
#pragma once

#include "graph/graph.h"

namespace moesh::partition {

// Where nobody but a cast to float32 reads a product of bfloat16, the product is made in float32 at once, as its sums are, and bodies of
// repeats likewise: gradients of parameters above all.
graph::Graph with_casts_folded(graph::Graph graph);

}  // namespace moesh::partition
