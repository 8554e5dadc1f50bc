// Rows whose number is known only when they are there: those that tokens send to experts.
#pragma once

#include <vector>

#include "graph/graph.h"

namespace moesh::plan {

// For each value of a region's body the value whose numbers add up to the rows that it has, or -1 where it has all.
std::vector<graph::ValueId> counted_by(const graph::Graph& body);

}  // namespace moesh::plan
