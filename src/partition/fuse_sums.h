// Sums that are made where one of their terms is.
#pragma once

#include "graph/graph.h"

namespace moesh::partition {

// Once the backward pass is there: where what one op makes is only added to a value that stood before it, the op takes this one as an
// operand more (see graph::OpFacts::added_to) and gives the sum. So it goes over memory once instead of twice.
// - Gradients of norms do so of any type.
// - Products do of float32, where nobody reads the value later: its memory becomes theirs. Of bfloat16 they would have to widen it.
graph::Graph with_sums_fused(graph::Graph graph);

}  // namespace moesh::partition
