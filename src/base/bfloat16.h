// The upper half of a float32, rounded to nearest even.
#pragma once

#include <bit>
#include <cstdint>

namespace moesh {

struct bfloat16 {
  std::uint16_t bits = 0;

  bfloat16() = default;
  explicit bfloat16(float value) {
    const auto word = std::bit_cast<std::uint32_t>(value);
    const bool is_nan = (word & 0x7FFFFFFF) > 0x7F800000;
    bits = static_cast<std::uint16_t>(is_nan ? (word >> 16) | 0x40 : (word + 0x7FFF + ((word >> 16) & 1)) >> 16);
  }
  explicit operator float() const { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }
};

}  // namespace moesh
