// Writes messages in the wire format of Protocol Buffers, as far as event files need it. There is no reader.
#pragma once

#include <bit>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace moesh::store {

class ProtobufWriter {
 public:
  ProtobufWriter& integer(int field, std::int64_t value) {
    tag(field, 0);
    varint(static_cast<std::uint64_t>(value));
    return *this;
  }
  ProtobufWriter& real(int field, double value) {
    tag(field, 1);
    fixed(std::bit_cast<std::uint64_t>(value));
    return *this;
  }
  ProtobufWriter& real32(int field, float value) {
    tag(field, 5);
    fixed(std::bit_cast<std::uint32_t>(value));
    return *this;
  }
  ProtobufWriter& bytes(int field, std::string_view value) {
    tag(field, 2);
    varint(value.size());
    text_ += value;
    return *this;
  }
  ProtobufWriter& message(int field, const ProtobufWriter& inner) { return bytes(field, inner.text_); }
  ProtobufWriter& reals(int field, std::span<const double> values) {
    ProtobufWriter packed;
    for (const double value : values) packed.fixed(std::bit_cast<std::uint64_t>(value));
    return message(field, packed);
  }

  const std::string& text() const { return text_; }

 private:
  void tag(int field, unsigned type) { varint(static_cast<std::uint64_t>(field) << 3 | type); }
  void varint(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) text_ += static_cast<char>((value & 0x7F) | 0x80);
    text_ += static_cast<char>(value);
  }
  template <typename Bits>
  void fixed(Bits bits) {
    for (std::size_t i = 0; i < sizeof bits; ++i) text_ += static_cast<char>(bits >> (8 * i) & 0xFF);
  }

  std::string text_;
};

}  // namespace moesh::store
