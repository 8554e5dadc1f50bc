// Partitions a whole program over the mesh of its layout.
#pragma once

#include "partition/partition.h"
#include "sharding/layout.h"

namespace moesh::partition {

// Parameters, moments and states lie as the layout says, as inputs and as results of the same names, and so do batches; all other inputs
// are whole on every device, and so are the results that `whole` names; other results lie as it comes. On one device nothing but
// constraints goes.
Partitioned partition_as_laid(graph::Graph graph, const sharding::Layout& layout, const mesh::Topology& target,
                              const std::vector<std::string>& whole = {});

}  // namespace moesh::partition
