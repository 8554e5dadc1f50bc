// The slots of tokens in a KV cache.
#pragma once

#include <cstdint>

#include <fmt/core.h>

#include "base/error.h"

namespace moesh::backend {

// Returns the slot, or fails if the cache does not have it.
inline std::int64_t checked_slot(std::int32_t slot, std::int64_t slots) {
  if (slot >= 0 && slot < slots) return slot;
  fail(fmt::format("position {} has no slot in a cache of {}", slot, slots), "the KV cache", "make room for more positions");
}

}  // namespace moesh::backend
