// Ops of a region that reach over several devices, split into what the devices do together and what each does alone.
#pragma once

#include "graph/graph.h"

namespace moesh::partition {

// Before: fetch_rows and return_rows over a group, which is how experts are written and differentiated. After: every node of the
// body is a collective (graph::collective_of) or a local kernel, which touches only the memory of its own device. Rows are
// fetched from tokens that are gathered, each value once; rows that are returned are listed by their tokens and added up here,
// and the sums travel to the tokens' owners with the tokens' numbers. What the body saves is handed over already: it is not named
// any more.
graph::RegionOf split_region(const graph::RegionOf& region);

}  // namespace moesh::partition
