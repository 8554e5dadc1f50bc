// Fuses the fetch of the cotangents of experts' rows into the op that reads them.
#pragma once

#include "graph/graph.h"

namespace moesh::partition {

// Before: the graph is partitioned. After: the gradient of weighted rows reads each row's cotangent where that of its token is
// (fetched_rows_grad), if it is fetched for this gradient alone.
graph::Graph with_fetches_fused(graph::Graph graph);

}  // namespace moesh::partition
