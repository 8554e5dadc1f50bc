// What collectives move, and how long they take by the usual algorithms on the machine's links.
#pragma once

#include <cstdint>

#include "base/dtype.h"
#include "base/shape.h"
#include "cost/network.h"
#include "graph/graph.h"

namespace moesh::cost {

// The bytes that one device hands to a collective whose operand lies as `from`.
std::int64_t operand_bytes(const Shape& shape, DType dtype, const sharding::Spec& from, const mesh::Mesh& mesh);

// The bytes of them that leave a device, by the usual algorithms on rings: nothing for a slice.
double wire_bytes(graph::ReshardOf::Kind kind, double operand_bytes, std::int64_t group);

// Gathers go level by level, the farthest first, when there is least to send; sums come back the same way. On a torus
// all dims carry at once. Pieces for each other device travel directly; on a torus they are bounded by what crosses its
// middle. `busiest`: of an all-to-all, so many times what each device sends on average comes to one of them, or from it.
double collective_seconds(graph::ReshardOf::Kind kind, double operand_bytes, const Group& group, double busiest = 1);

}  // namespace moesh::cost
