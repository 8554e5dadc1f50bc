// The hash that detects damage in stored data: XXH3, 64 bits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace moesh::store {

std::uint64_t hash_of(const void* data, std::size_t bytes);
inline std::uint64_t hash_of(std::string_view text) { return hash_of(text.data(), text.size()); }

// The same hash, for data that come in several parts.
class Hasher {
 public:
  Hasher();
  void add(const void* data, std::size_t bytes);
  std::uint64_t hash() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

// As 16 hexadecimal digits.
std::string hash_text(std::uint64_t hash);
std::optional<std::uint64_t> parse_hash(std::string_view text);

}  // namespace moesh::store
