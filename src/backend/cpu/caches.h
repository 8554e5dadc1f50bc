// What kernels know about the CPU's caches.
#pragma once

#include <cstdint>

namespace moesh::backend::cpu {

// Bytes of a core's L2 cache, or a usual size if the system does not report it.
std::int64_t l2_cache_bytes();

// How many rows of `row_bytes`, `pitch_bytes` apart, half of the L2 cache holds at once: rows a power of two apart share few of its sets.
std::int64_t rows_in_l2(std::int64_t row_bytes, std::int64_t pitch_bytes);

// The same of two thirds of the L1 cache.
std::int64_t rows_in_l1(std::int64_t row_bytes, std::int64_t pitch_bytes);

}  // namespace moesh::backend::cpu
