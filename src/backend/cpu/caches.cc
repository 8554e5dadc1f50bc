#include "backend/cpu/caches.h"

#include <algorithm>
#include <numeric>

#include <unistd.h>

#include "backend/cpu/cache_line.h"
#include "backend/cpu/pack.h"

namespace moesh::backend::cpu {

std::int64_t l2_cache_bytes() {
  static const std::int64_t bytes = [] {
    constexpr std::int64_t kUsual = 1024 * 1024, kLeast = 256 * 1024, kMost = 4 * 1024 * 1024;  // a larger one is shared by several cores
    std::int64_t said = 0;
#ifdef _SC_LEVEL2_CACHE_SIZE
    said = ::sysconf(_SC_LEVEL2_CACHE_SIZE);
#endif
    return said <= 0 ? kUsual : std::clamp(said, kLeast, kMost);
  }();
  return bytes;
}

namespace {


// How many rows `ways` ways of a cache hold, of which one has `of_a_way` bytes.
std::int64_t rows_in(std::int64_t ways, std::int64_t of_a_way, std::int64_t row_bytes, std::int64_t pitch_bytes) {
  const std::int64_t apart = std::max(std::gcd(pitch_bytes, of_a_way), round_up(row_bytes, kCacheLineBytes));
  return std::max<std::int64_t>(1, of_a_way / apart) * ways;
}

}  // namespace

std::int64_t rows_in_l2(std::int64_t row_bytes, std::int64_t pitch_bytes) {
  constexpr std::int64_t kWays = 16;  // usual associativity
  return rows_in(kWays / 2, l2_cache_bytes() / kWays, row_bytes, pitch_bytes);
}

std::int64_t rows_in_l1(std::int64_t row_bytes, std::int64_t pitch_bytes) {
  constexpr std::int64_t kUsedWays = 8, kBytesOfWay = 4096;
  return rows_in(kUsedWays, kBytesOfWay, row_bytes, pitch_bytes);
}

}  // namespace moesh::backend::cpu
