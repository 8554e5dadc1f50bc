// A backend: the table of kernels that run the ops of a plan.
#pragma once

#include <string_view>

#include "backend/kernel.h"

namespace moesh::backend {

struct Backend {
  std::string_view name;
  Kernel (*find_kernel)(graph::Op op);  // null for ops that are not kernels
};

// The CPU cores of this machine, with kernels for the instruction sets that they support.
const Backend& cpu_backend();
// Every op in its plainest form: slow and obviously right. It never stands in for a kernel that another backend lacks.
const Backend& reference_backend();

// The backend of that name, a value of the key `backend`.
const Backend& find_backend(std::string_view name);

}  // namespace moesh::backend
