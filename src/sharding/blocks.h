// The block of a value that each device of a mesh has.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/shape.h"
#include "mesh/mesh.h"
#include "mesh/owners.h"
#include "sharding/spec.h"

namespace moesh::sharding {

// The index of a shard or a device along each mesh axis; 0 along axes that do not matter.
using mesh::Coordinates;

struct Range {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t size() const { return end - begin; }
};

// The axes along which the shards of a value, or the devices of a group, differ. It numbers them with the last axis fastest.
class ShardAxes {
 public:
  ShardAxes(AxisList axes, const mesh::Mesh& mesh);
  ShardAxes(const Spec& spec, const mesh::Mesh& mesh);

  const AxisList& axes() const { return axes_; }
  std::size_t count() const { return count_; }
  Coordinates coordinates(std::size_t index) const;
  Coordinates moved(Coordinates at, std::size_t index) const;  // the coordinates of `index`, with those of `at` along the other axes
  std::size_t index(const Coordinates& coordinates) const;

 private:
  AxisList axes_;
  const mesh::Mesh* mesh_;
  std::size_t count_ = 1;
};

// The distinct shards that some devices have, in the order of ShardAxes.
class OwnedShards {
 public:
  OwnedShards(AxisList axes, const mesh::Mesh& mesh, const std::vector<Coordinates>& devices);

  std::size_t count() const { return devices_.size(); }
  const Coordinates& device(std::size_t shard) const { return devices_[shard]; }  // the first device that has it
  std::optional<std::size_t> find(const Coordinates& at) const;

 private:
  ShardAxes axes_;
  std::vector<std::size_t> indices_;  // sorted
  std::vector<Coordinates> devices_;
};

// The number of a device's block among those that the axes make, with the first axis major.
std::int64_t block_index(const AxisList& axes, const mesh::Mesh& mesh, const Coordinates& at);

// The range of each dim that the shard at these coordinates has. Block sizes are rounded up, so the last blocks may be smaller or empty.
std::vector<Range> block_of(const Shape& shape, const Spec& spec, const mesh::Mesh& mesh, const Coordinates& at);

Shape shape_of(const std::vector<Range>& block);

// The number of elements of a block, and of those that two blocks share.
std::int64_t volume(const std::vector<Range>& block);
std::int64_t common_volume(const std::vector<Range>& a, const std::vector<Range>& b);

}  // namespace moesh::sharding
