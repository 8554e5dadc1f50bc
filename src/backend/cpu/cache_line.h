// The size of a cache line.
#pragma once

#include <cstdint>

namespace moesh::backend::cpu {

inline constexpr std::int64_t kCacheLineBytes = 64;

template <typename T>
inline constexpr std::int64_t kCacheLine = kCacheLineBytes / static_cast<std::int64_t>(sizeof(T));  // elements

}  // namespace moesh::backend::cpu
