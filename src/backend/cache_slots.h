// The slots of tokens in a KV cache.
#pragma once

#include <cstdint>

#include <fmt/core.h>

#include "base/error.h"
#include "backend/kernel.h"
#include "graph/graph.h"

namespace moesh::backend {

// Where one operand of cache_write goes.
struct WrittenRows {
  const View& rows;
  const std::int32_t* slots;
  std::int64_t first, count;  // of the cache's slots
  bool wraps, skips;

  // The slot of a token, counted over all rows of the cache, or kNoSlot if it is not written. Fails if the cache has none.
  std::int64_t slot_of(std::int64_t token, std::int64_t slots_of_row) const {
    const std::int32_t slot = slots[token];
    if (slot >= 0 && (wraps || slot < count)) return token / rows.size(1) * slots_of_row + first + slot % count;
    if (skips && slot == graph::kNoSlot) return graph::kNoSlot;
    fail(fmt::format("position {} has no slot in a cache of {}", slot, count), "the KV cache", "make room for more positions");
  }
};

// Calls write(rows) for the rows of tokens, and then for those of pools, if there are any.
template <typename Write>
void each_written(const KernelCall& call, const Write& write) {
  const auto& of = std::get<graph::CacheWriteOf>(call.attributes);
  const std::int64_t near = call.operands[0].size(1) - of.pools;
  write(WrittenRows{call.operands[1], call.operands[2].as<std::int32_t>(), 0, near, of.wraps, of.skips});
  if (of.pools > 0) write(WrittenRows{call.operands[3], call.operands[4].as<std::int32_t>(), near, of.pools, false, of.skips});
}

}  // namespace moesh::backend
