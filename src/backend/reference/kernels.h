// Every op in its plainest form, against which the fast kernels are tested.
#pragma once

#include "backend/kernel.h"

namespace moesh::backend::reference {

// Null for ops that are not kernels (inputs, constraints, repeats, regions).
Kernel find_kernel(graph::Op op);

// One per source file.
Kernel find_elementwise(graph::Op op);
Kernel find_shape(graph::Op op);
Kernel find_products(graph::Op op);
Kernel find_layers(graph::Op op);
Kernel find_attention(graph::Op op);
Kernel find_indexing(graph::Op op);
Kernel find_linear_attention(graph::Op op);
Kernel find_streams(graph::Op op);
Kernel find_pooling(graph::Op op);
Kernel find_vocabulary(graph::Op op);
Kernel find_routing(graph::Op op);
Kernel find_rows(graph::Op op);
Kernel find_slots(graph::Op op);
Kernel find_learning(graph::Op op);

}  // namespace moesh::backend::reference
