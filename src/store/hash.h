// The hash by which damage is found in what was stored: XXH3, 64 bits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace moesh::store {

std::uint64_t hash_of(const void* data, std::size_t bytes);
inline std::uint64_t hash_of(std::string_view text) { return hash_of(text.data(), text.size()); }

// 16 hexadecimal digits.
std::string hash_text(std::uint64_t hash);
std::optional<std::uint64_t> parse_hash(std::string_view text);

}  // namespace moesh::store
