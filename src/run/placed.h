// A value as the devices of a mesh hold it, equal shards once.
#pragma once

#include <algorithm>
#include <vector>

#include "backend/workers.h"
#include "mesh/mesh.h"
#include "run/array.h"
#include "sharding/blocks.h"

namespace moesh::run {

using sharding::Coordinates;
using sharding::ShardAxes;

// What belongs to each dim, the one that stands in front in memory back at its place.
template <typename T>
std::vector<T> in_seen_order(std::vector<T> of_dims, int first) {
  if (first > 0) std::rotate(of_dims.begin(), of_dims.begin() + 1, of_dims.begin() + first + 1);
  return of_dims;
}

struct Placed {
  Shape shape;  // of the whole
  sharding::Spec spec;
  std::vector<Array> shards;  // as ShardAxes counts them
  int first = 0;              // the dim of the value as others see it that stands in front here

  explicit operator bool() const { return !shards.empty(); }
  // One of those that are here: of several processes each has its own.
  const Array& any_shard() const {
    return *std::find_if(shards.begin(), shards.end(), [](const Array& shard) { return static_cast<bool>(shard); });
  }
  Shape seen_shape() const { return in_seen_order(shape, first); }
  std::int64_t bytes() const;  // as stored in this process
};

// Buffers for the shards of a value that is still to be made.
Placed unfilled(const Shape& shape, DType dtype, const sharding::Spec& spec, const mesh::Mesh& mesh, Pool& pool);

// A whole value, cut as the spec says. A shard that is all of it shares its buffer.
Placed place(const Array& whole, const sharding::Spec& spec, const mesh::Mesh& mesh, Pool& pool);

// The same, into shards that are there, their first dim in front: all of them, or those of an owner's devices as OwnedShards counts them.
void place_into(const Array& whole, const Placed& shards, const mesh::Mesh& mesh);
void place_into(const Array& whole, const Placed& shards, const mesh::Owners& owners, int owner);

// The shards of a value that some owners have, each those of its devices: the first owner's that has it. What none of them has is empty.
Placed merged(const std::vector<Placed>& of_owners, const mesh::Owners& owners, const std::vector<int>& here);

// The whole of a value in memory of its own, partial sums added up, and its dims in the order that others see.
Array gathered(const Placed& value, const mesh::Mesh& mesh, Pool& pool, Workers& workers);

// What devices do to bring a value into another layout, all at once: each new shard is put together from the old ones that
// it overlaps. Partial sums are added up in the order of mesh/sum_order.h.
Placed reshard(const Placed& value, const sharding::Spec& to, const mesh::Mesh& mesh, Pool& pool, Workers& workers);

}  // namespace moesh::run
