#include "tokenizer/charsmap.h"

#include <cstring>

#include "base/error.h"
#include "base/text.h"

namespace moesh::tokenizer {
namespace {

constexpr const char* kDamaged = "'precompiled_charsmap' is damaged";

int value_of(char c) {
  if (c >= 'A' && c <= 'Z') return c - 'A';
  if (c >= 'a' && c <= 'z') return c - 'a' + 26;
  if (c >= '0' && c <= '9') return c - '0' + 52;
  return c == '+' ? 62 : c == '/' ? 63 : -1;
}

std::optional<std::string> from_base64(std::string_view text) {
  if (text.size() % 4 != 0) return std::nullopt;
  while (text.ends_with('=')) text.remove_suffix(1);
  std::string bytes;
  std::uint32_t bits = 0;
  int count = 0;
  for (const char c : text) {
    const int value = value_of(c);
    if (value < 0) return std::nullopt;
    bits = bits << 6 | static_cast<std::uint32_t>(value);
    count += 6;
    if (count < 8) continue;
    count -= 8;
    bytes += static_cast<char>(bits >> count & 0xFF);
  }
  return bytes;
}

std::uint32_t number_at(std::string_view bytes, std::size_t at) {
  std::uint32_t value;
  std::memcpy(&value, bytes.data() + at, sizeof(value));
  return value;
}

// The fields of a unit of the double array: the byte that leads to it, where its children are, and whether it has a value.
bool has_leaf(std::uint32_t unit) { return (unit >> 8 & 1) == 1; }
std::uint32_t label(std::uint32_t unit) { return unit & (1u << 31 | 0xFF); }
std::size_t offset(std::uint32_t unit) { return static_cast<std::size_t>(unit >> 10) << ((unit & 1u << 9) >> 6); }
std::size_t value(std::uint32_t unit) { return unit & 0x7FFFFFFF; }

}  // namespace

Charsmap::Charsmap(std::string_view base64, const std::string& where) {
  const std::optional<std::string> bytes = from_base64(base64);
  if (!bytes || bytes->size() < 8) refuse(kDamaged, where, "take the file from where it came from again");
  const std::size_t units = number_at(*bytes, 0) / 4;
  if (units < 1 || units > bytes->size() / 4 - 1)
    refuse(kDamaged, where, "take the file from where it came from again");
  for (std::size_t i = 1; i <= units; ++i) units_.push_back(number_at(*bytes, 4 * i));
  replacements_ = bytes->substr(4 + 4 * units);
  if (!is_valid_utf8(replacements_)) refuse(kDamaged, where, "take the file from where it came from again");
}

std::optional<std::string_view> Charsmap::replacement(std::string_view character) const {
  std::size_t node = offset(units_[0]);
  for (const char c : character) {
    const auto byte = static_cast<unsigned char>(c);
    node ^= byte;
    if (byte == 0 || node >= units_.size() || label(units_[node]) != byte) return std::nullopt;
    const std::uint32_t unit = units_[node];
    node ^= offset(unit);
    if (!has_leaf(unit)) continue;
    // The first match counts, even if it covers only a part of the character.
    const std::size_t begin = node < units_.size() ? value(units_[node]) : replacements_.size() + 1;
    if (begin > replacements_.size()) return std::nullopt;
    const std::string_view rest = std::string_view(replacements_).substr(begin);
    const std::string_view found = rest.substr(0, rest.find('\0'));
    return is_valid_utf8(found) ? std::optional(found) : std::nullopt;
  }
  return std::nullopt;
}

}  // namespace moesh::tokenizer
