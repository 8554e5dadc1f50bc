// Splits the multi-device ops of a region into collectives and local kernels.
#pragma once

#include "graph/graph.h"

namespace moesh::partition {

// Before: the body may have fetch_rows and return_rows over a group of devices, the form in which experts are written and
// differentiated. After: every node of the body is a collective (graph::collective_of) or a local kernel, which touches only the
// memory of its own device. fetch_rows becomes a local fetch from all-gathered tokens; each value is gathered once. return_rows
// becomes local sums per token and a scatter that sends each sum, with its token's number, to the device that owns the token. Where results
// come back from the experts to be weighted, in a region that overlaps, the gradients of the results and of the weights are made apart.
// `saved` is emptied: the backward pass exists and reads the saved values as results of the region.
graph::RegionOf split_region(const graph::RegionOf& region);

}  // namespace moesh::partition
