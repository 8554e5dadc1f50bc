// The loss over a vocabulary as one kernel.
#pragma once

#include "graph/graph.h"

namespace moesh::partition {

// Of a graph whose values say how they lie. Where logits are there only for their loss and its gradients, and each device has all of
// the vocabulary, product, loss, its gradient and the two products that take it become one vocab_loss: no logits are ever held. So do
// product and loss of a graph without gradients.
graph::Graph with_loss_fused(graph::Graph graph);

}  // namespace moesh::partition
