// Elementwise fusion: elementwise ops that feed each other or read the same values become one op, which passes over memory once.
#pragma once

#include "graph/graph.h"

namespace moesh::partition {

// Before: the graph has its backward pass, and its values have specs. After: elementwise ops on values of one shape and spec that feed
// each other or share an operand are one Op::chain, in bodies too. Each step's result is rounded to its type as before, so results
// keep their bits. Ops are fused only where that does not raise peak memory.
graph::Graph with_chains(graph::Graph graph);

}  // namespace moesh::partition
