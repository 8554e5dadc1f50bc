// What is cheaper to make again for the backward pass than to keep for it.
#pragma once

#include <vector>

#include "graph/graph.h"

namespace moesh::graph {

// By node of a body, whether saving everything leaves it out: elementwise results whose operands the backward pass reads anyway, and what
// elementwise ops make of inputs that are there again, as weights are.
std::vector<bool> made_again(const Graph& body, int carried);

// Of a graph whose nodes before number `end` run the forward pass again for those behind: where a cheap result is on the way to products of
// that pass, the backward pass gets one of its own, made just before it is read, if what it is made of is held until then anyway.
Graph with_cheap_nodes_again(const Graph& graph, std::size_t end);

}  // namespace moesh::graph
