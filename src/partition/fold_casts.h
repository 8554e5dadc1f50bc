// Folds casts into the ops before and after them.
#pragma once

#include "graph/graph.h"

namespace moesh::partition {

// Before: the graph has its backward pass. After, in the graph and in the bodies of its repeats:
// - A matrix product, or gradient of a table of embeddings or of the loss over a vocabulary, in bfloat16 whose only reader is a cast to
//   float32 has a float32 result instead, the type that it accumulates in, and the cast is gone. It may also be a region's result.
// - An embedding reads its table as it was before a cast and rounds the rows that it looks up. So does the fused loss over the vocabulary
//   (vocab_loss) for a float32 table that is cast to bfloat16.
graph::Graph with_casts_folded(graph::Graph graph);

}  // namespace moesh::partition
