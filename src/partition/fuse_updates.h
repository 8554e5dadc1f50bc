// Fuses ops that would pass over a parameter or a table once more into the op that has it at hand.
#pragma once

#include "graph/graph.h"

namespace moesh::partition {

// Before: the graph has its backward pass. After:
// - An adam_update whose new parameter is squared and summed also returns that sum of squares.
// - The gradient of an embedding that is added to another gradient of the table, as for tied embeddings, is added to the rows of that one
//   (embed_add).
graph::Graph with_updates_fused(graph::Graph graph);

}  // namespace moesh::partition
