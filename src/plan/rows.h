// Values whose number of valid rows is known only at run time: the rows that tokens send to experts.
#pragma once

#include <vector>

#include "graph/graph.h"

namespace moesh::plan {

// For each value of a region's body, the value of counts whose sum is the number of its valid rows; -1 if all rows are valid.
std::vector<graph::ValueId> counted_by(const graph::Graph& body);

}  // namespace moesh::plan
