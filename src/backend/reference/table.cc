#include "backend/reference/kernels.h"

namespace moesh::backend::reference {

Kernel find_kernel(graph::Op op) {
  for (const auto find : {find_elementwise, find_shape, find_products, find_layers, find_attention, find_indexing, find_linear_attention,
                          find_streams, find_pooling, find_vocabulary, find_routing, find_rows, find_slots, find_learning}) {
    if (const Kernel kernel = find(op)) return kernel;
  }
  return nullptr;
}

}  // namespace moesh::backend::reference
