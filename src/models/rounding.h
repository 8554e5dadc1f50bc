// Products of low precision: which of a model's multiply rounded numbers.
#pragma once

#include "graph/graph.h"

namespace moesh::models {

// As the reference quantizes: the products of attention's, MLPs' and experts' weights, in a graph without its backward pass, which takes
// it over. Not those of the router, of the logits and between queries and keys.
graph::Graph with_rounded_products(graph::Graph graph, graph::Rounded rounded);

}  // namespace moesh::models
