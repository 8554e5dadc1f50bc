// Element types of values.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace moesh {

enum class DType : std::uint8_t { float32, bfloat16, float64, int32, boolean };

constexpr std::int64_t size_of(DType dtype) {
  switch (dtype) {
    case DType::float32: return 4;
    case DType::bfloat16: return 2;
    case DType::float64: return 8;
    case DType::int32: return 4;
    case DType::boolean: return 1;
  }
  return 0;
}

constexpr bool is_floating(DType dtype) { return dtype != DType::int32 && dtype != DType::boolean; }

// The type in which elements of a floating type are accumulated.
constexpr DType wide_of(DType dtype) { return dtype == DType::float64 ? DType::float64 : DType::float32; }

std::string_view name_of(DType dtype);  // as NumPy spells it: "float32", "bool"
std::optional<DType> parse_dtype(std::string_view name);

}  // namespace moesh
