// Makes the layers dim of stacked values the first one in memory.
#pragma once

#include "graph/graph.h"

namespace moesh::partition {

// Before: the graph's values have specs. After: values that repeats slice and stack, mainly parameters, moments and gradients, have the
// stacked dim first, so that an iteration's slice is dense and kernels read and write it in place. A value keeps its order if anything
// but repeats, elementwise ops and sums of squares uses it. Parameters and inputs record the dim that was moved (`first`); results that
// are not the next value of a root are transposed back.
// `beside`: a graph that has been rewritten, with which this one shares its parameters: those that keep their order there keep it here.
graph::Graph stack_first(const graph::Graph& graph, const graph::Graph* beside = nullptr);

}  // namespace moesh::partition
