// Where the buffers of a plan lie in memory: those whose contents are not needed at the same time share it.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "plan/plan.h"

namespace moesh::plan {

struct Arena {
  std::vector<std::int64_t> offsets;  // of each buffer
  std::int64_t bytes = 0;
};

inline constexpr std::int64_t kAlignment = 64;
constexpr std::int64_t aligned(std::int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

// From the first instruction that needs the buffer to the last, loops whole where their iterations share it.
struct Lifetime {
  InstructionId first = 0;
  InstructionId last = -1;
};
std::vector<Lifetime> lifetimes_of(const Plan& plan);

// `size` of each buffer in this memory: a device's, or that of a process which has several shards of it. State lies elsewhere: other
// programs share it.
Arena pack(const Plan& plan, const std::function<std::int64_t(const Buffer&)>& size);

Arena device_arena(const Plan& plan);
std::int64_t state_bytes(const Plan& plan);  // of a device

}  // namespace moesh::plan
