#include "store/hash.h"

#include <charconv>

#include <fmt/core.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace moesh::store {

std::uint64_t hash_of(const void* data, std::size_t bytes) { return XXH3_64bits(data, bytes); }

struct Hasher::State {
  alignas(64) XXH3_state_t state;
};

Hasher::Hasher() : state_(std::make_shared<State>()) { XXH3_64bits_reset(&state_->state); }

void Hasher::add(const void* data, std::size_t bytes) { XXH3_64bits_update(&state_->state, data, bytes); }

std::uint64_t Hasher::hash() const { return XXH3_64bits_digest(&state_->state); }

std::string hash_text(std::uint64_t hash) { return fmt::format("{:016x}", hash); }

std::optional<std::uint64_t> parse_hash(std::string_view text) {
  std::uint64_t hash = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, hash, 16);
  if (error != std::errc() || stop != end || hash_text(hash) != text) return std::nullopt;
  return hash;
}

}  // namespace moesh::store
