#include "backend/cpu/caches.h"

#include <algorithm>

#include <unistd.h>

namespace moesh::backend::cpu {

std::int64_t second_cache_bytes() {
  static const std::int64_t bytes = [] {
    constexpr std::int64_t kUsual = 1024 * 1024, kLeast = 256 * 1024, kMost = 4 * 1024 * 1024;  // a larger one serves several cores
    std::int64_t said = 0;
#ifdef _SC_LEVEL2_CACHE_SIZE
    said = ::sysconf(_SC_LEVEL2_CACHE_SIZE);
#endif
    return said <= 0 ? kUsual : std::clamp(said, kLeast, kMost);
  }();
  return bytes;
}

}  // namespace moesh::backend::cpu
