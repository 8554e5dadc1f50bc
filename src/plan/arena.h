// The memory plan: the offset of each buffer in one arena, in which buffers that are not live at the same time share memory.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "base/rounding.h"
#include "plan/plan.h"

namespace moesh::plan {

struct Arena {
  std::vector<std::int64_t> offsets;  // by buffer
  std::int64_t bytes = 0;
};

inline constexpr std::int64_t kAlignment = 64;
constexpr std::int64_t aligned(std::int64_t bytes) { return round_up(bytes, kAlignment); }

// From the first instruction that uses the buffer to the last. It covers a whole loop if the iterations share the buffer's content.
struct Lifetime {
  InstructionId first = 0;
  InstructionId last = -1;
};
std::vector<Lifetime> lifetimes_of(const Plan& plan);

// `size`: the bytes of a buffer in this memory, which is that of one device, or that of a process that has several shards of the buffer.
// State takes no room in the arena: it is stored elsewhere, since several programs share it.
Arena pack(const Plan& plan, const std::function<std::int64_t(const Buffer&)>& size);

// The arena of one device.
Arena device_arena(const Plan& plan);
std::int64_t state_bytes(const Plan& plan);  // per device

}  // namespace moesh::plan
