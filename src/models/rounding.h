// Quantization: marks the matrix products of a model that multiply quantized numbers.
#pragma once

#include "graph/graph.h"

namespace moesh::models {

// Marks the products that the reference quantizes: those with weights of attention, MLPs and experts, but not those of the router, of the
// logits, and between queries and keys. For a graph without its backward pass, which inherits the marks.
graph::Graph with_rounded_products(graph::Graph graph, graph::Rounded rounded);

}  // namespace moesh::models
