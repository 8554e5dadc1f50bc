// Counter-based random numbers (Threefry-2x32 in JAX's partitionable layout): an element depends on its key and its
// index alone, never on how many are drawn nor where.
#pragma once

#include <array>
#include <cstdint>

namespace moesh {

struct RandomKey {
  std::uint32_t high = 0;
  std::uint32_t low = 0;

  bool operator==(const RandomKey&) const = default;
};

std::array<std::uint32_t, 2> threefry(RandomKey key, std::array<std::uint32_t, 2> counter);

RandomKey random_key(std::int64_t seed);
RandomKey fold_in(RandomKey key, std::uint32_t data);
RandomKey split(RandomKey key, std::uint32_t index);  // the index-th of any number of new keys

std::uint32_t random_bits(RandomKey key, std::uint64_t index);
float random_uniform(RandomKey key, std::uint64_t index);  // in [0, 1)
float random_normal(RandomKey key, std::uint64_t index);
std::int32_t random_integer(RandomKey key, std::uint64_t index, std::int32_t low, std::int32_t high);  // in [low, high)

// A normal distribution cut off at both ends.
class TruncatedNormal {
 public:
  TruncatedNormal(float low, float high);
  float draw(RandomKey key, std::uint64_t index) const;

 private:
  float least_, most_;  // of what is drawn
  float from_, to_;     // of the uniform numbers that it is made of
};

// Where `index` comes to stand when [0, count) is put into a random order.
std::uint64_t permuted(RandomKey key, std::uint64_t index, std::uint64_t count);

}  // namespace moesh
