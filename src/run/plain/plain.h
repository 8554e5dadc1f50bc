// Every op in its plainest form: what the fast kernels are held to, and what runs where there is none.
#pragma once

#include "run/kernel.h"

namespace moesh::run::plain {

// Null for ops that are not kernels (inputs, constraints, repeats, regions).
Kernel find_kernel(graph::Op op);

// Refuses a slot that a cache lacks.
std::int64_t checked_slot(std::int32_t slot, std::int64_t slots);

// By file.
Kernel find_elementwise(graph::Op op);
Kernel find_shape(graph::Op op);
Kernel find_products(graph::Op op);
Kernel find_layers(graph::Op op);
Kernel find_attention(graph::Op op);
Kernel find_vocabulary(graph::Op op);
Kernel find_routing(graph::Op op);
Kernel find_rows(graph::Op op);
Kernel find_slots(graph::Op op);
Kernel find_learning(graph::Op op);

}  // namespace moesh::run::plain
