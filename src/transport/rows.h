// Collectives of regions: each device of a group has operands of its own, and gets a part of what all of them have.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "backend/kernel.h"

namespace moesh::transport {

// Called once for each device that gets a result, with each operand of all members, one member after the other. Rows of members
// of other owners are packed: only those for this device are there. Null for ops that are no such collectives.
using RowCollective = void (*)(const backend::KernelCall& call, std::span<const char> is_packed);
RowCollective find_row_collective(graph::Op op);

// The operands that travel, the first ones; the others are those of the device itself.
std::size_t operands_sent(graph::Op op);

// What one member of a group has for another one.
struct Handed {
  graph::Op op;
  const graph::GroupOf& of;
  std::span<const backend::View> operands;  // of the member that has it; those that do not travel may be anyone's of the group
  std::int64_t from = 0, to = 0;            // members
  std::int64_t tokens = 0;                  // of a device, where rows go to the owners of tokens
};

// The bytes that a device sends of it.
std::int64_t handed_bytes(const Handed& handed);

// As a message carries it, with what the receiver does not know.
std::int64_t packed_bytes(const Handed& handed);
void pack(const Handed& handed, std::byte* to);
// Has the operands that travel point into the message; returns what stands behind them there.
const std::byte* unpack(const Handed& handed, const std::byte* from, std::span<backend::View> operands);

}  // namespace moesh::transport
