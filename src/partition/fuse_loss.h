// Fuses the output projection and the loss over the vocabulary into one op, so that no logits are stored.
#pragma once

#include "graph/graph.h"

namespace moesh::partition {

// Before: the graph's values have specs. After: if logits are read only by their loss and its gradient, and each device has the whole
// vocabulary, one vocab_loss stands for the product that makes them, for what scales and caps them, the loss, its gradient and the two
// products that read this gradient. In a graph without gradients it stands for what makes the loss.
// If devices have pieces of the vocabulary, `makes_again` says what is done: logits are made twice, by a vocab_logs and by a
// vocab_loss_grad that stands for the gradient and its products, or held in between.
graph::Graph with_loss_fused(graph::Graph graph, bool makes_again);

}  // namespace moesh::partition
