// Counter-based random numbers (Threefry-2x32 in JAX's partitionable layout): an element depends only on its key and its index, never on
// how many are drawn or where.
#pragma once

#include <array>
#include <bit>
#include <cstdint>

namespace moesh {

struct RandomKey {
  std::uint32_t high = 0;
  std::uint32_t low = 0;

  bool operator==(const RandomKey&) const = default;
};

// Always inline, so that loops over counters are vectorised.
[[gnu::always_inline]] inline std::array<std::uint32_t, 2> threefry(RandomKey key, std::array<std::uint32_t, 2> counter) {
  const std::array<std::uint32_t, 3> keys{key.high, key.low, key.high ^ key.low ^ 0x1BD11BDAu};
  std::uint32_t x = counter[0] + keys[0], y = counter[1] + keys[1];
  const auto mix = [&](int rotation) __attribute__((always_inline)) {
    x += y;
    y = std::rotl(y, rotation) ^ x;
  };
  const auto round = [&](std::uint32_t number, int a, int b, int c, int d) __attribute__((always_inline)) {
    mix(a);
    mix(b);
    mix(c);
    mix(d);
    x += keys[number % 3];
    y += keys[(number + 1) % 3] + number;
  };
  round(1, 13, 15, 26, 6);
  round(2, 17, 29, 16, 24);
  round(3, 13, 15, 26, 6);
  round(4, 17, 29, 16, 24);
  round(5, 13, 15, 26, 6);
  return {x, y};
}

RandomKey random_key(std::int64_t seed);
RandomKey fold_in(RandomKey key, std::uint32_t data);
RandomKey split(RandomKey key, std::uint32_t index);  // the index-th of any number of new keys

std::uint32_t random_bits(RandomKey key, std::uint64_t index);

// Random bits as a number in [0, 1): the upper ones become the mantissa.
[[gnu::always_inline]] inline float unit_of(std::uint32_t bits) { return std::bit_cast<float>(bits >> 9 | 0x3F800000u) - 1.0f; }

float random_uniform(RandomKey key, std::uint64_t index);  // in [0, 1)
std::int32_t random_integer(RandomKey key, std::uint64_t index, std::int32_t low, std::int32_t high);  // in [low, high)

// The position of `index` in a random permutation of [0, count).
std::uint64_t permuted(RandomKey key, std::uint64_t index, std::uint64_t count);

}  // namespace moesh
