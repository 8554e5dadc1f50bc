#include "store/small_floats.h"

#include <array>
#include <bit>
#include <cmath>
#include <limits>

namespace moesh::store {

float from_float16(std::uint16_t bits) {
  const float sign = (bits & 0x8000u) != 0 ? -1.0f : 1.0f;
  const int exponent = (bits >> 10) & 0x1F, fraction = bits & 0x3FF;
  if (exponent == 0x1F)
    return fraction == 0 ? sign * std::numeric_limits<float>::infinity() : std::numeric_limits<float>::quiet_NaN();
  if (exponent == 0) return sign * std::ldexp(static_cast<float>(fraction), -24);
  return sign * std::ldexp(static_cast<float>(fraction + 1024), exponent - 25);
}

std::uint16_t to_float16(float value) {
  const auto word = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint16_t>((word >> 16) & 0x8000u);
  const float size = std::fabs(value);
  constexpr float kOverflows = 65520;  // half way from the largest finite number to the next
  constexpr float kSmallest = 0x1p-14f;  // the smallest normal number
  if (std::isnan(value)) return static_cast<std::uint16_t>(sign | 0x7E00u);
  if (size >= kOverflows) return static_cast<std::uint16_t>(sign | 0x7C00u);
  if (size < kSmallest) return static_cast<std::uint16_t>(sign | static_cast<std::uint16_t>(std::nearbyint(std::ldexp(size, 24))));
  constexpr unsigned kDropped = 13, kOtherBias = (127 - 15) << 10;
  const std::uint32_t magnitude = word & 0x7FFFFFFFu;
  const std::uint32_t rounded = magnitude + ((1u << (kDropped - 1)) - 1) + ((magnitude >> kDropped) & 1u);
  return static_cast<std::uint16_t>(sign | ((rounded >> kDropped) - kOtherBias));
}

float from_float8_e4m3(std::uint8_t bits) {
  const float sign = (bits & 0x80u) != 0 ? -1.0f : 1.0f;
  const int exponent = (bits >> 3) & 0xF, fraction = bits & 7;
  if (exponent == 0xF && fraction == 7) return std::numeric_limits<float>::quiet_NaN();
  if (exponent == 0) return sign * std::ldexp(static_cast<float>(fraction), -9);
  return sign * std::ldexp(static_cast<float>(fraction + 8), exponent - 10);
}

float from_float4_e2m1(unsigned bits) {
  constexpr std::array<float, 8> kSizes{0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
  const float size = kSizes[bits & 7];
  return (bits & 8) != 0 ? -size : size;
}

float power_of_two(std::uint8_t exponent) {
  if (exponent == 0xFF) return std::numeric_limits<float>::quiet_NaN();
  return std::ldexp(1.0f, static_cast<int>(exponent) - 127);
}

}  // namespace moesh::store
