// The slots of tokens in a KV cache.
#pragma once

#include <cstdint>

#include <fmt/core.h>

#include "base/error.h"
#include "graph/graph.h"

namespace moesh::backend {

// Returns the slot of a position, or fails if the cache does not have it.
inline std::int64_t checked_slot(std::int32_t slot, std::int64_t slots, const graph::CacheWriteOf& of) {
  if (slot >= 0 && (of.wraps || slot < slots)) return slot % slots;
  fail(fmt::format("position {} has no slot in a cache of {}", slot, slots), "the KV cache", "make room for more positions");
}

}  // namespace moesh::backend
