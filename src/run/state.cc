#include "run/state.h"

#include <fmt/core.h>

#include "base/error.h"

namespace moesh::run {

const State::Slot& State::slot(const plan::Port& port, const plan::Plan& plan) {
  const plan::View& view = plan.view(port.view);
  const auto found = slots_.find(port.name);
  if (found == slots_.end()) {
    const plan::Buffer& buffer = plan.buffer(view.buffer);
    const std::int64_t bytes = buffer.bytes * sharding::shards(buffer.distinct, plan.mesh);
    return slots_.emplace(port.name, Slot{view.shape, view.dtype, view.spec, Memory(bytes)}).first->second;
  }
  const Slot& slot = found->second;
  if (slot.shape != view.shape || slot.dtype != view.dtype || slot.spec != view.spec) {
    refuse(fmt::format("{}{} as it is kept, this program takes {}{}", name_of(slot.dtype), to_string(slot.shape), name_of(view.dtype),
                       to_string(view.shape)),
           port.name, "make all programs for the same rows and cache slots, on one mesh");
  }
  return slot;
}

Placed State::value(const std::string& name, const mesh::Mesh& mesh) const {
  const auto found = slots_.find(name);
  if (found == slots_.end()) return {};
  const Slot& slot = found->second;
  const ShardAxes axes(slot.spec, mesh);
  const std::int64_t pitch = slot.memory.bytes() / static_cast<std::int64_t>(axes.count());
  Placed value{slot.shape, slot.spec, {}};
  for (std::size_t i = 0; i < axes.count(); ++i) {
    const Shape shape = shape_of(block_of(slot.shape, slot.spec, mesh, axes.coordinates(i)));
    value.shards.push_back({slot.memory.owner(), {slot.memory.at(static_cast<std::int64_t>(i) * pitch), slot.dtype, shape}});
  }
  return value;
}

std::int64_t State::bytes() const {
  std::int64_t sum = 0;
  for (const auto& [name, slot] : slots_) sum += slot.memory.bytes();
  return sum;
}

}  // namespace moesh::run
