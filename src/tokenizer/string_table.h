// A hash table from strings to numbers, for vocabularies and caches of words.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace moesh::tokenizer {

inline constexpr std::int32_t kNone = -1;

class StringTable {
 public:
  StringTable();

  // kNone if the string was not set.
  std::int32_t find(std::string_view key) const;
  // Adds a string or gives it another number. Numbers are not negative.
  void set(std::string_view key, std::int32_t value);

  std::size_t size() const { return count_; }
  std::size_t bytes() const { return keys_.size(); }

 private:
  struct Slot {
    std::uint64_t hash = 0;
    std::uint64_t begin = 0;
    std::uint32_t length = 0;
    std::int32_t value = kNone;  // kNone: the slot is free
  };
  std::size_t place_of(std::string_view key, std::uint64_t hash) const;
  void grow();

  std::string keys_;  // all of them, one after the other
  std::vector<Slot> slots_;
  std::size_t count_ = 0;
};

}  // namespace moesh::tokenizer
