// Fuses additions into the ops that make one of their terms, which then accumulate into the other term.
#pragma once

#include "graph/graph.h"

namespace moesh::partition {

// Before: the graph has its backward pass. After: an op whose result was only added to a value that exists before it takes that value as
// one more operand (see graph::OpFacts::added_to) and returns the sum, which saves a second pass over memory.
// - Gradients of norms do so in any type.
// - Matrix products do so in float32 if nobody reads the value later, since they accumulate in its memory. In bfloat16 they would have to
//   widen it first.
graph::Graph with_sums_fused(graph::Graph graph);

}  // namespace moesh::partition
