// What would go over a parameter or a table once more is done where it is at hand.
#pragma once

#include "graph/graph.h"

namespace moesh::partition {

// Once the backward pass is there:
// - An update gives the sum of the new parameter's squares besides.
// - The gradient of an embedding that is added to a table, as where the table makes logits too, goes into that table's rows.
graph::Graph with_updates_fused(graph::Graph graph);

}  // namespace moesh::partition
