// How much data collectives move, and how long they take by the usual algorithms on the machine's links.
#pragma once

#include <cstdint>

#include "base/dtype.h"
#include "base/shape.h"
#include "cost/network.h"
#include "graph/graph.h"

namespace moesh::cost {

// The bytes that leave a device, by the usual ring algorithms; none for a slice.
double wire_bytes(graph::ReshardOf::Kind kind, double operand_bytes, std::int64_t group);

// The part of the bytes that leave a device which crosses the farthest level of its group.
double far_wire_bytes(graph::ReshardOf::Kind kind, double operand_bytes, const Group& group);

// An all-gather goes level by level, starting at the farthest, when there is least to send; a reduce-scatter goes the same way backward. On
// a torus all dims carry data at once. An all-reduce is a reduce-scatter and an all-gather or, if little is summed, one exchange in which
// every device gets all operands. The pieces of an all-to-all travel directly; on a torus they are bounded by what crosses its middle.
// `busiest`: in an all-to-all, how much the busiest device receives or sends, relative to the average.
double collective_seconds(graph::ReshardOf::Kind kind, double operand_bytes, const Group& group, double busiest = 1);

}  // namespace moesh::cost
