// Divisions and multiples of whole numbers, rounded up or down. None may be negative.
#pragma once

#include <cstdint>

namespace moesh {

constexpr std::int64_t divide_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }
constexpr std::int64_t round_up(std::int64_t a, std::int64_t b) { return divide_up(a, b) * b; }
constexpr std::int64_t round_down(std::int64_t a, std::int64_t b) { return a / b * b; }

}  // namespace moesh
