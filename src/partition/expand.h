// Ops written out where a layout needs their parts: norms and losses over a dim that is spread over devices, and what regions do
// over several of them.
#pragma once

#include "graph/graph.h"
#include "partition/wants.h"

namespace moesh::partition {

// Attention is told of the queries' and the keys' tokens apart. A norm of rows that lie in pieces takes their sums first, and a loss over
// a spread vocabulary each piece's share. Bodies of regions are split, see split_region.h.
graph::Graph expand(const graph::Graph& graph, const std::vector<Want>& results, const PartitionRequest& request);

}  // namespace moesh::partition
