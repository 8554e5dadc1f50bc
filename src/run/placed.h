// A value as the devices of a mesh hold it, equal shards once.
#pragma once

#include <vector>

#include "mesh/mesh.h"
#include "run/array.h"
#include "run/workers.h"
#include "sharding/spec.h"

namespace moesh::run {

// Which index a shard has along each mesh axis; 0 along axes that do not matter.
using Coordinates = std::vector<std::int64_t>;

struct Range {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t size() const { return end - begin; }
};

// The axes over which the shards of a value differ, sorted, and the order in which coordinates along them are counted: the
// last axis fastest.
class ShardAxes {
 public:
  ShardAxes(sharding::AxisList axes, const mesh::Mesh& mesh);
  ShardAxes(const sharding::Spec& spec, const mesh::Mesh& mesh);

  const sharding::AxisList& axes() const { return axes_; }
  std::size_t count() const { return count_; }
  Coordinates coordinates(std::size_t index) const;
  std::size_t index(const Coordinates& coordinates) const;

 private:
  sharding::AxisList axes_;
  const mesh::Mesh* mesh_;
  std::size_t count_ = 1;
};

// Which of a list of axes' blocks a device has, the first axis major.
std::int64_t block_index(const sharding::AxisList& axes, const mesh::Mesh& mesh, const Coordinates& at);

// The part of each dim that the shard at these coordinates has: blocks of ceil size, the last ones smaller or empty.
std::vector<Range> block_of(const Shape& shape, const sharding::Spec& spec, const mesh::Mesh& mesh, const Coordinates& at);

Shape shape_of(const std::vector<Range>& block);

struct Placed {
  Shape shape;  // of the whole
  sharding::Spec spec;
  std::vector<Array> shards;  // as ShardAxes counts them

  explicit operator bool() const { return !shards.empty(); }
  std::int64_t bytes() const;  // as stored in this process
};

// Buffers for the shards of a value that is still to be made.
Placed unfilled(const Shape& shape, DType dtype, const sharding::Spec& spec, const mesh::Mesh& mesh, Pool& pool);

// A whole value, cut as the spec says. A shard that is all of it shares its buffer.
Placed place(const Array& whole, const sharding::Spec& spec, const mesh::Mesh& mesh, Pool& pool);

// The same, into shards that are there.
void place_into(const Array& whole, const Placed& shards, const mesh::Mesh& mesh);

// The whole of a value in memory of its own, partial sums added up.
Array gathered(const Placed& value, const mesh::Mesh& mesh, Pool& pool, Workers& workers);

// What devices do to bring a value into another layout, all at once: each new shard is put together from the old ones that
// it overlaps. Partial sums are added up in the order of mesh/sum_order.h.
Placed reshard(const Placed& value, const sharding::Spec& to, const mesh::Mesh& mesh, Pool& pool, Workers& workers);

}  // namespace moesh::run
