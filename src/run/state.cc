#include "run/state.h"

#include <cstring>

#include <fmt/core.h>

#include "base/error.h"

namespace moesh::run {

const Memory& State::memory(const plan::Port& port, const plan::Plan& plan, const mesh::Owners& owners, int owner) {
  if (!owners_) owners_ = owners;
  const plan::View& view = plan.view(port.view);
  auto found = slots_.find(port.name);
  if (found == slots_.end()) {
    const plan::Buffer& buffer = plan.buffer(view.buffer);
    Slot slot{view.shape, view.dtype, view.spec, buffer.bytes, {}};
    for (int each = 0; each < owners.count(); ++each) {
      const sharding::OwnedShards shards(buffer.distinct, plan.mesh, owners.devices(each));
      slot.memories.emplace_back(buffer.bytes * static_cast<std::int64_t>(shards.count()));
    }
    found = slots_.emplace(port.name, std::move(slot)).first;
  }
  const Slot& slot = found->second;
  if (slot.shape != view.shape || slot.dtype != view.dtype || slot.spec != view.spec) {
    refuse(fmt::format("{}{} as it is kept, this program takes {}{}", name_of(slot.dtype), to_string(slot.shape), name_of(view.dtype),
                       to_string(view.shape)),
           port.name, "make all programs for the same rows and cache slots, on one mesh");
  }
  return slot.memories[static_cast<std::size_t>(owner)];
}

// The owner's shards, as OwnedShards counts them.
Placed State::of_owner(const Slot& slot, int owner) const {
  const mesh::Mesh& mesh = owners_->mesh();
  const Memory& memory = slot.memories[static_cast<std::size_t>(owner)];
  const sharding::OwnedShards shards(sharding::distinct_axes(slot.spec), mesh, owners_->devices(owner));
  Placed value{slot.shape, slot.spec, {}};
  for (std::size_t i = 0; i < shards.count(); ++i) {
    const Shape shape = sharding::shape_of(sharding::block_of(slot.shape, slot.spec, mesh, shards.device(i)));
    value.shards.push_back({memory.owner(), {memory.at(static_cast<std::int64_t>(i) * slot.pitch), slot.dtype, shape}});
  }
  return value;
}

Placed State::value(const std::string& name) const {
  const auto found = slots_.find(name);
  if (found == slots_.end()) return {};
  const Slot& slot = found->second;
  std::vector<Placed> parts;
  for (int owner = 0; owner < owners_->count(); ++owner) parts.push_back(of_owner(slot, owner));
  return merged(parts, *owners_);
}

void State::put(const std::string& name, const Array& whole) const {
  const Slot& slot = slots_.at(name);
  for (int owner = 0; owner < owners_->count(); ++owner) place_into(whole, of_owner(slot, owner), *owners_, owner);
}

void State::clear(const std::string& name) const {
  for (const Memory& memory : slots_.at(name).memories) std::memset(memory.at(0), 0, static_cast<std::size_t>(memory.bytes()));
}

std::int64_t State::bytes() const {
  std::int64_t sum = 0;
  for (const auto& [name, slot] : slots_) {
    for (const Memory& memory : slot.memories) sum += memory.bytes();
  }
  return sum;
}

}  // namespace moesh::run
