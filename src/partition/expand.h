// Expands ops whose layout needs their parts: norms and losses over a sharded dim, and the multi-device ops in regions.
#pragma once

#include "graph/graph.h"
#include "partition/wants.h"

namespace moesh::partition {

// Runs before the partitioner places the nodes. After it: attention has the order and segments of the keys as operands separate from those
// of the queries, which may be sharded along their length while the keys are not. An RMS norm whose rows are sharded takes their dot
// products as operands, and a cross entropy over a sharded vocabulary takes the scores of each shard. Bodies of regions are split, see
// split_region.h.
graph::Graph expand(const graph::Graph& graph, const std::vector<Want>& results, const PartitionRequest& request);

}  // namespace moesh::partition
