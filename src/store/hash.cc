#include "store/hash.h"

#include <charconv>

#include <fmt/core.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace moesh::store {

std::uint64_t hash_of(const void* data, std::size_t bytes) { return XXH3_64bits(data, bytes); }

std::string hash_text(std::uint64_t hash) { return fmt::format("{:016x}", hash); }

std::optional<std::uint64_t> parse_hash(std::string_view text) {
  std::uint64_t hash = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, hash, 16);
  if (error != std::errc() || stop != end || hash_text(hash) != text) return std::nullopt;
  return hash;
}

}  // namespace moesh::store
