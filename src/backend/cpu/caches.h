// What kernels know of the machine's caches.
#pragma once

#include <cstdint>

namespace moesh::backend::cpu {

// Bytes of a core's second cache, or a usual size where the machine does not say.
std::int64_t second_cache_bytes();

// How many rows of so many bytes, so far apart, half of that cache holds at once: those a power of two apart share few places.
std::int64_t rows_that_stay(std::int64_t row_bytes, std::int64_t pitch_bytes);

}  // namespace moesh::backend::cpu
