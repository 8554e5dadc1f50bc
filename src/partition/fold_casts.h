// Casts that others make on their way.
#pragma once

#include "graph/graph.h"

namespace moesh::partition {

// Of the graph and of bodies in it, once the backward pass is there:
// - Where nobody but another cast to float32 reads a product of bfloat16, the product is made in float32 at once, as its sums are;
//   the gradient of an embedding too.
// - Rows are looked up in the table as it was before a cast, and rounded. So is what the loss over the vocabulary reads of it.
graph::Graph with_casts_folded(graph::Graph graph);

}  // namespace moesh::partition
