#include "store/stored_type.h"

#include <cassert>
#include <cstring>

#include "base/bfloat16.h"
#include "store/small_floats.h"

namespace moesh::store {
namespace {

constexpr std::string_view kFloat16Name = "float16";

std::uint16_t narrowed(float value, StoredType type) {
  return type == kFloat16 ? to_float16(value) : bfloat16(value).bits;
}

}  // namespace

std::int64_t size_of(StoredType type) {
  switch (type.encoding) {
    case Encoding::plain: return moesh::size_of(type.dtype);
    case Encoding::float16: return 2;
    case Encoding::float8_e4m3:
    case Encoding::uint8: return 1;
    case Encoding::int64: return 8;
  }
  return 0;
}

std::string_view name_of(StoredType type) {
  assert(type.encoding == Encoding::plain || type == kFloat16);
  return type == kFloat16 ? kFloat16Name : moesh::name_of(type.dtype);
}

std::optional<StoredType> parse_stored_type(std::string_view name) {
  if (name == kFloat16Name) return kFloat16;
  const std::optional<DType> dtype = parse_dtype(name);
  return dtype ? std::optional(StoredType{*dtype}) : std::nullopt;
}

void narrow(std::byte* data, std::int64_t count, StoredType type) {
  if (type == StoredType{DType::float32}) return;
  assert(type == kFloat16 || type == StoredType{DType::bfloat16});
  for (std::int64_t i = 0; i < count; ++i) {
    float value;
    std::memcpy(&value, data + i * static_cast<std::int64_t>(sizeof value), sizeof value);
    const std::uint16_t bits = narrowed(value, type);
    std::memcpy(data + i * static_cast<std::int64_t>(sizeof bits), &bits, sizeof bits);
  }
}

}  // namespace moesh::store
