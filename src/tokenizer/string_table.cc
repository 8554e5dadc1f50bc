#include "tokenizer/string_table.h"

#include <utility>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace moesh::tokenizer {
namespace {

constexpr std::size_t kFirstSlots = 1 << 10;

}  // namespace

StringTable::StringTable() : slots_(kFirstSlots) {}

std::size_t StringTable::place_of(std::string_view key, std::uint64_t hash) const {
  const std::size_t mask = slots_.size() - 1;
  for (std::size_t place = hash & mask;; place = (place + 1) & mask) {
    const Slot& slot = slots_[place];
    if (slot.value == kNone) return place;
    if (slot.hash == hash && std::string_view(keys_).substr(slot.begin, slot.length) == key) return place;
  }
}

std::int32_t StringTable::find(std::string_view key) const {
  return slots_[place_of(key, XXH3_64bits(key.data(), key.size()))].value;
}

void StringTable::set(std::string_view key, std::int32_t value) {
  const std::uint64_t hash = XXH3_64bits(key.data(), key.size());
  Slot& slot = slots_[place_of(key, hash)];
  if (slot.value != kNone) {
    slot.value = value;
    return;
  }
  slot = {hash, keys_.size(), static_cast<std::uint32_t>(key.size()), value};
  keys_ += key;
  if (++count_ * 2 > slots_.size()) grow();
}

void StringTable::grow() {
  std::vector<Slot> before(slots_.size() * 2);
  std::swap(before, slots_);
  const std::size_t mask = slots_.size() - 1;
  for (const Slot& slot : before) {
    if (slot.value == kNone) continue;
    std::size_t place = slot.hash & mask;
    while (slots_[place].value != kNone) place = (place + 1) & mask;
    slots_[place] = slot;
  }
}

}  // namespace moesh::tokenizer
