#include "backend/backend.h"

#include <cassert>

#include "backend/cpu/kernels.h"
#include "backend/reference/kernels.h"

namespace moesh::backend {

const Backend& cpu_backend() {
  static constexpr Backend kCpu{"cpu", cpu::find_kernel};
  return kCpu;
}

const Backend& reference_backend() {
  static constexpr Backend kReference{"reference", reference::find_kernel};
  return kReference;
}

const Backend& find_backend(std::string_view name) {
  if (name == reference_backend().name) return reference_backend();
  assert(name == cpu_backend().name && "the schema names the backends");
  return cpu_backend();
}

}  // namespace moesh::backend
