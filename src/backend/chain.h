// How a backend runs a chain: its own kernels go over a block of elements at a time, which stays in cache from step to step.
#pragma once

#include "backend/kernel.h"

namespace moesh::backend {

void run_chain(const KernelCall& call, Kernel (*kernel_of)(graph::Op));

}  // namespace moesh::backend
