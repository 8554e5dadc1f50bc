#include "forecast/resident.h"

#include <algorithm>

#include "base/place.h"
#include "cost/tiles.h"

namespace moesh::forecast {
namespace {

using plan::Buffer;

// The padding of a buffer that is used as the view shows it. A view of one slice stands for all slices of the buffer.
std::int64_t padding_of(const plan::Plan& plan, const plan::View& view, const mesh::MemoryTile& tile) {
  Shape shape = sharding::shard_shape(view.shape, view.spec, plan.mesh);
  const std::int64_t own = elements(shape) * size_of(view.dtype);
  const std::int64_t bytes = plan.buffer(view.buffer).bytes;
  if (own == 0 || bytes % own != 0) return 0;
  shape.insert(shape.begin(), bytes / own);
  return cost::tiled_bytes(shape, view.dtype, tile) - bytes;
}

// A buffer that is used in several shapes has the least padding of all of them.
std::vector<std::int64_t> paddings_of(const plan::Plan& plan, const mesh::MemoryTile& tile) {
  std::vector<std::int64_t> paddings(plan.buffers.size(), -1);
  for (const plan::View& view : plan.views) {
    const std::int64_t own = padding_of(plan, view, tile);
    std::int64_t& least = paddings[at(view.buffer)];
    least = least < 0 ? own : std::min(least, own);
  }
  for (std::int64_t& padding : paddings) padding = std::max<std::int64_t>(0, padding);
  return paddings;
}

// Makes a buffer this large, and its padding in proportion.
void resize(Buffer& buffer, std::int64_t& padding, std::int64_t bytes) {
  padding = static_cast<std::int64_t>(static_cast<double>(padding) * static_cast<double>(bytes) / static_cast<double>(buffer.bytes));
  buffer.bytes = bytes;
}

}  // namespace

Resident resident_of(const plan::Plan& plan, const mesh::Chip& chip, const std::vector<Offloaded>& offloaded) {
  Resident made{plan, chip.memory_tile ? paddings_of(plan, *chip.memory_tile) : std::vector<std::int64_t>(plan.buffers.size())};
  for (const Offloaded& value : offloaded) {
    Buffer& buffer = made.plan.buffers[at(value.buffer)];
    const bool is_stack = value.made_by >= 0;
    resize(buffer, made.padding[at(value.buffer)], is_stack ? std::min(buffer.bytes, 2 * value.slice_bytes) : 2 * value.slice_bytes);
    buffer.lasts = plan::Lasts::within;
  }
  for (std::size_t b = 0; b < made.padding.size(); ++b) made.plan.buffers[b].bytes += made.padding[b];
  return made;
}

}  // namespace moesh::forecast
