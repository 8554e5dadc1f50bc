// Who runs the kernels of a plan.
#pragma once

#include <string_view>

#include "backend/kernel.h"

namespace moesh::backend {

struct Backend {
  std::string_view name;
  Kernel (*find_kernel)(graph::Op op);  // null for ops that are no kernels
};

// This machine's cores, by kernels for what they can do.
const Backend& cpu_backend();
// Every op in its plainest form: slow and obviously right. What another backend lacks is never taken from it.
const Backend& reference_backend();

// Of the key `backend`, whose values are these names.
const Backend& find_backend(std::string_view name);

}  // namespace moesh::backend
