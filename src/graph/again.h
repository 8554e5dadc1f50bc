// Finds values that are cheaper to recompute for the backward pass than to save for it.
#pragma once

#include <vector>

#include "graph/graph.h"

namespace moesh::graph {

// For each node of a body, whether a policy that saves everything still leaves it out: elementwise results whose operands the backward pass
// reads anyway, and elementwise functions of inputs that the backward pass is given again, such as weights.
std::vector<bool> made_again(const Graph& body, int carried);

// For a graph whose nodes before number `end` recompute the forward pass for the nodes after them. If the backward pass reads a cheap
// result that the recomputation also needs on the way to its matrix products, the backward pass gets a copy of its own, computed just
// before it is read, provided that the operands of the copy are held until then anyway.
Graph with_cheap_nodes_again(const Graph& graph, std::size_t end);

}  // namespace moesh::graph
