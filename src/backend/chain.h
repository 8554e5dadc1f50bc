// How a backend runs a chain: its own kernels on some elements at a time, which stay in a cache from step to step.
#pragma once

#include "backend/kernel.h"

namespace moesh::backend {

void run_chain(const KernelCall& call, Kernel (*kernel_of)(graph::Op));

}  // namespace moesh::backend
