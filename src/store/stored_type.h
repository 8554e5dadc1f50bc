// The types in which numbers are stored: as they lie in memory, or in an encoding that has to be decoded.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "base/dtype.h"

namespace moesh::store {

enum class Encoding : std::uint8_t { plain, float16, float8_e4m3, uint8, int64 };

struct StoredType {
  DType dtype = DType::float32;  // what its numbers are decoded into
  Encoding encoding = Encoding::plain;

  bool operator==(const StoredType&) const = default;
};

inline constexpr StoredType kFloat16{DType::float32, Encoding::float16};

std::int64_t size_of(StoredType type);  // bytes per number

// For the types in which weights can be written: "float16", and those of memory.
std::string_view name_of(StoredType type);
std::optional<StoredType> parse_stored_type(std::string_view name);

// Converts float32 numbers in place to `type`, which must not be wider.
void narrow(std::byte* data, std::int64_t count, StoredType type);

}  // namespace moesh::store
