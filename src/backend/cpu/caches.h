// What kernels know of the machine's caches.
#pragma once

#include <cstdint>

namespace moesh::backend::cpu {

// Bytes of a core's second cache, or a usual size where the machine does not say.
std::int64_t second_cache_bytes();

}  // namespace moesh::backend::cpu
