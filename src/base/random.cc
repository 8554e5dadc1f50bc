#include "base/random.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace moesh {

RandomKey random_key(std::int64_t seed) {
  const auto bits = static_cast<std::uint64_t>(seed);
  return {static_cast<std::uint32_t>(bits >> 32), static_cast<std::uint32_t>(bits)};
}

RandomKey fold_in(RandomKey key, std::uint32_t data) {
  const auto made = threefry(key, {0, data});
  return {made[0], made[1]};
}

RandomKey split(RandomKey key, std::uint32_t index) {
  const auto made = threefry(key, {0, index});
  return {made[0], made[1]};
}

std::uint32_t random_bits(RandomKey key, std::uint64_t index) {
  const auto made = threefry(key, {static_cast<std::uint32_t>(index >> 32), static_cast<std::uint32_t>(index)});
  return made[0] ^ made[1];
}

float random_uniform(RandomKey key, std::uint64_t index) { return unit_of(random_bits(key, index)); }

std::int32_t random_integer(RandomKey key, std::uint64_t index, std::int32_t low, std::int32_t high) {
  const auto span = static_cast<std::uint32_t>(high - low);
  const std::uint32_t upper = random_bits(split(key, 0), index);
  const std::uint32_t lower = random_bits(split(key, 1), index);
  // 2^32 modulo the span, so that all 64 bits count.
  std::uint32_t factor = 65536u % span;
  factor = factor * factor % span;
  return low + static_cast<std::int32_t>((upper % span * factor + lower % span) % span);
}

// A Feistel network permutes the smallest range of 2^(2k) indices that holds all; an index that falls outside is permuted again.
std::uint64_t permuted(RandomKey key, std::uint64_t index, std::uint64_t count) {
  const int half = std::max(1, (static_cast<int>(std::bit_width(count - 1)) + 1) / 2);
  const std::uint64_t mask = (std::uint64_t{1} << half) - 1;
  do {
    std::uint64_t left = index >> half;
    std::uint64_t right = index & mask;
    for (std::uint32_t round = 0; round < 4; ++round) {
      const std::uint64_t mixed = left ^ (random_bits(fold_in(key, round), right) & mask);
      left = std::exchange(right, mixed);
    }
    index = left << half | right;
  } while (index >= count);
  return index;
}

}  // namespace moesh
