// Stacks of layers' values with their layers first in memory.
#pragma once

#include "graph/graph.h"

namespace moesh::partition {

// Of a graph whose values say how they lie. What repeats take slices of and stack up, parameters, moments and gradients above all, gets
// the stacked dim in front, so that an iteration's slice is dense: kernels read and write it where it lies. Where something else than
// repeats and what goes element by element uses a value, it stays as it is. Parameters and inputs say what became of them (`first`);
// results that are not the next values of inputs are turned back.
graph::Graph stack_first(const graph::Graph& graph);

}  // namespace moesh::partition
