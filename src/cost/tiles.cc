#include "cost/tiles.h"

#include <algorithm>
#include <bit>

#include "base/rounding.h"

namespace moesh::cost {
namespace {

constexpr std::int64_t kWord = 4;  // bytes of an element of a tile; narrower ones share it along the rows

// The smallest power of two that is at least `size`, between the two bounds.
std::int64_t power_of_two(std::int64_t size, std::int64_t least, std::int64_t most) {
  return std::clamp(static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(size))), least, most);
}

}  // namespace

std::int64_t tiled_bytes(const Shape& shape, DType dtype, const mesh::MemoryTile& tile) {
  const std::int64_t size = size_of(dtype), packed = std::max<std::int64_t>(1, kWord / size);
  Shape dims;
  for (const std::int64_t dim : shape) {
    if (dim == 0) return 0;
    if (dim > 1) dims.push_back(dim);
  }
  if (dims.empty()) return size;
  if (dims.size() == 1) return round_up(dims[0], power_of_two(dims[0], tile.columns * packed, tile.rows * tile.columns * packed)) * size;
  const std::int64_t all = elements(dims);
  std::int64_t least = 0;
  for (std::size_t column = 0; column < dims.size(); ++column) {
    for (std::size_t row = 0; row < dims.size(); ++row) {
      if (row == column) continue;
      const std::int64_t rows = round_up(dims[row], power_of_two(dims[row], packed, tile.rows * packed));
      const std::int64_t filled = all / dims[column] / dims[row] * rows * round_up(dims[column], tile.columns);
      if (least == 0 || filled < least) least = filled;
    }
  }
  return least * size;
}

}  // namespace moesh::cost
