// Fuses the output projection and the loss over the vocabulary into one op, so that no logits are stored.
#pragma once

#include "graph/graph.h"

namespace moesh::partition {

// Before: the graph's values have specs. After: if logits are read only by their loss and its gradient, and each device has the whole
// vocabulary, one vocab_loss stands for the product that makes them, the loss, its gradient and the two products that read this
// gradient. In a graph without gradients it stands for the product and the loss.
graph::Graph with_loss_fused(graph::Graph graph);

}  // namespace moesh::partition
