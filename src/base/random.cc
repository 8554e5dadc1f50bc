#include "base/random.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <utility>

namespace moesh {
namespace {

// Giles' approximation of the inverse error function in single precision.
float inverse_erf(float x) {
  constexpr std::array<float, 9> kCentral{2.81022636e-08f, 3.43273939e-07f,  -3.5233877e-06f, -4.39150654e-06f, 0.00021858087f,
                                          -0.00125372503f, -0.00417768164f, 0.246640727f,    1.50140941f};
  constexpr std::array<float, 9> kTail{-0.000200214257f, 0.000100950558f, 0.00134934322f, -0.00367342844f, 0.00573950773f,
                                       -0.0076224613f,   0.00943887047f,  1.00167406f,    2.83297682f};
  float w = -std::log1p(-x * x);
  const bool central = w < 5;
  w = central ? w - 2.5f : std::sqrt(w) - 3;
  const auto& c = central ? kCentral : kTail;
  float p = c[0];
  for (std::size_t i = 1; i < c.size(); ++i) p = std::fma(p, w, c[i]);
  return std::abs(x) == 1 ? x * std::numeric_limits<float>::infinity() : p * x;
}

// Uniform in [low, high), from the bits of the mantissa.
float uniform_between(RandomKey key, std::uint64_t index, float low, float high) {
  const float unit = random_uniform(key, index);
  return std::max(low, unit * (high - low) + low);
}

}  // namespace

std::array<std::uint32_t, 2> threefry(RandomKey key, std::array<std::uint32_t, 2> counter) {
  constexpr std::array<std::array<int, 4>, 2> kRotations{{{13, 15, 26, 6}, {17, 29, 16, 24}}};
  const std::array<std::uint32_t, 3> keys{key.high, key.low, key.high ^ key.low ^ 0x1BD11BDAu};
  std::uint32_t x = counter[0] + keys[0];
  std::uint32_t y = counter[1] + keys[1];
  for (std::uint32_t round = 0; round < 5; ++round) {
    for (const int rotation : kRotations[round % 2]) {
      x += y;
      y = std::rotl(y, rotation) ^ x;
    }
    x += keys[(round + 1) % 3];
    y += keys[(round + 2) % 3] + round + 1;
  }
  return {x, y};
}

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

float random_uniform(RandomKey key, std::uint64_t index) {
  return std::bit_cast<float>((random_bits(key, index) >> 9) | 0x3F800000u) - 1.0f;
}

float random_normal(RandomKey key, std::uint64_t index) {
  const float low = std::nextafter(-1.0f, 0.0f);
  return std::sqrt(2.0f) * inverse_erf(uniform_between(key, index, low, 1.0f));
}

TruncatedNormal::TruncatedNormal(float low, float high)
    : least_(std::nextafter(low, std::numeric_limits<float>::infinity())),
      most_(std::nextafter(high, -std::numeric_limits<float>::infinity())),
      from_(std::erf(low / std::sqrt(2.0f))),
      to_(std::erf(high / std::sqrt(2.0f))) {}

float TruncatedNormal::draw(RandomKey key, std::uint64_t index) const {
  return std::clamp(std::sqrt(2.0f) * inverse_erf(uniform_between(key, index, from_, to_)), least_, most_);
}

std::int32_t random_integer(RandomKey key, std::uint64_t index, std::int32_t low, std::int32_t high) {
  const auto span = static_cast<std::uint32_t>(high - low);
  const std::uint32_t upper = random_bits(split(key, 0), index);
  const std::uint32_t lower = random_bits(split(key, 1), index);
  // 2^32 modulo the span, so that all 64 bits count.
  std::uint32_t factor = 65536u % span;
  factor = factor * factor % span;
  return low + static_cast<std::int32_t>((upper % span * factor + lower % span) % span);
}

// A Feistel network permutes the least even power of two that holds all; what falls outside is permuted again.
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
