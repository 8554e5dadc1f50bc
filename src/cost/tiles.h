// The memory of arrays on chips that store them in tiles.
#pragma once

#include "base/dtype.h"
#include "base/shape.h"
#include "mesh/hardware.h"

namespace moesh::cost {

// The bytes of an array in whole tiles, if the two dims that a tile covers are those that leave the least of it empty. If one of them is
// shorter than a tile, the tile has as many rows as the next power of two. Arrays of one dim fill whole tiles too, or one row of up to a
// tile's elements.
std::int64_t tiled_bytes(const Shape& shape, DType dtype, const mesh::MemoryTile& tile);

}  // namespace moesh::cost
