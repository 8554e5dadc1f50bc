// A value as the devices of a mesh hold it, with equal shards stored once.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "backend/workers.h"
#include "mesh/mesh.h"
#include "run/array.h"
#include "sharding/blocks.h"

namespace moesh::run {

using sharding::Coordinates;
using sharding::ShardAxes;

// Reorders a list with one entry per dim to the order that others see: the dim that comes first in memory goes back to place `first`.
template <typename T>
std::vector<T> in_seen_order(std::vector<T> of_dims, int first) {
  if (first > 0) std::rotate(of_dims.begin(), of_dims.begin() + 1, of_dims.begin() + first + 1);
  return of_dims;
}

struct Placed {
  Shape shape;  // of the whole value, as it lies in memory
  sharding::Spec spec;
  std::vector<Array> shards;  // in the order of ShardAxes
  int first = 0;              // the dim, as others see the value, that comes first in memory

  explicit operator bool() const { return !shards.empty(); }
  // One of the shards that are here: with several processes, each has only its own.
  const Array& any_shard() const& {
    return *std::find_if(shards.begin(), shards.end(), [](const Array& shard) { return static_cast<bool>(shard); });
  }
  Array any_shard() && { return std::as_const(*this).any_shard(); }  // a copy, as a reference into a temporary would dangle
  Shape seen_shape() const { return in_seen_order(shape, first); }
  std::int64_t bytes() const;  // as stored in this process
};

// Allocates the shards of a value that is yet to be computed.
Placed unfilled(const Shape& shape, DType dtype, const sharding::Spec& spec, const mesh::Mesh& mesh, Pool& pool);

// Cuts a whole value as the spec says. A shard that is the whole value shares its buffer.
Placed place(const Array& whole, const sharding::Spec& spec, const mesh::Mesh& mesh, Pool& pool);

// The same, into shards that exist already and may have another dim first: all of them, or those of an owner's devices in the order
// of OwnedShards.
void place_into(const Array& whole, const Placed& shards, const mesh::Mesh& mesh);
void place_into(const Array& whole, const Placed& shards, const mesh::Owners& owners, int owner);

// The shards of a value that some owners have, each those of its devices. If several have a shard, the first owner's is taken; a
// shard that none of them has is empty.
Placed merged(const std::vector<Placed>& of_owners, const mesh::Owners& owners, const std::vector<int>& here);

// The whole value in new memory, with partial sums added up and its dims in the order that others see.
Array gathered(const Placed& value, const mesh::Mesh& mesh, Pool& pool, Workers& workers);

// Brings a value into another layout, on all devices at once: each new shard is put together from the old ones that it overlaps.
// Partial sums are added up in the order of mesh/sum_order.h.
Placed reshard(const Placed& value, const sharding::Spec& to, const mesh::Mesh& mesh, Pool& pool, Workers& workers);

}  // namespace moesh::run
