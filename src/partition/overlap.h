// Orders what regions do so that collectives and products overlap.
#pragma once

#include "graph/graph.h"

namespace moesh::partition {

// Before: a graph that is partitioned and has its backward pass; in a region that overlaps (RegionOf::overlaps), chunks of the tokens stand
// one after another, each with the collectives that bring its rows to the experts and back. After:
// - What the next product waits for is sent before a product that does not wait for it.
// - What waits for something that is on its way stands behind the next product.
// - A product that no collective needs, such as a weight's gradient, stands behind the next collective if only one other stands between.
// So products hide the time on the wire, and of what is sent ahead a device holds no more than one product needs. The nodes are the same,
// and so are their results.
graph::Graph with_overlap(graph::Graph graph);

}  // namespace moesh::partition
