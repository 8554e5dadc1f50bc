// Collectives of regions: each device of a group has operands of its own, and gets a part of what all of them have.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "backend/kernel.h"

namespace moesh::transport {

// Called once per device that gets a result, with each operand of all members, one member after the other. The rows of members that
// belong to other owners are packed: only those for this device are there. Null for ops that are not such collectives.
using RowCollective = void (*)(const backend::KernelCall& call, std::span<const char> is_packed);
RowCollective find_row_collective(graph::Op op);

// How many operands travel between devices: the first ones. The others are those of the device itself.
std::size_t operands_sent(graph::Op op);

// What one member of a group sends to another.
struct Handed {
  graph::Op op;
  const graph::GroupOf& of;
  std::span<const backend::View> operands;  // of the sending member; those that do not travel may be any member's
  std::int64_t from = 0, to = 0;            // member numbers
  std::int64_t tokens = 0;                  // per device, if rows go to the devices that have their tokens
};

// Bytes of payload.
std::int64_t handed_bytes(const Handed& handed);

// The message that carries it, together with what the receiver does not know: its size in bytes, and packing it.
std::int64_t packed_bytes(const Handed& handed);
void pack(const Handed& handed, std::byte* to);
// Points the operands that travel into the message, and returns where the message goes on after them.
const std::byte* unpack(const Handed& handed, const std::byte* from, std::span<backend::View> operands);

}  // namespace moesh::transport
