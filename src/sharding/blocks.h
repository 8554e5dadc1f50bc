// Which part of a value each device of a mesh has.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/shape.h"
#include "mesh/mesh.h"
#include "mesh/owners.h"
#include "sharding/spec.h"

namespace moesh::sharding {

// Which index a shard or a device has along each mesh axis; 0 along axes that do not matter.
using mesh::Coordinates;

struct Range {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t size() const { return end - begin; }
};

// The axes over which the shards of a value, or the devices of a group, differ, and the order in which coordinates along them are
// counted: the last axis fastest.
class ShardAxes {
 public:
  ShardAxes(AxisList axes, const mesh::Mesh& mesh);
  ShardAxes(const Spec& spec, const mesh::Mesh& mesh);

  const AxisList& axes() const { return axes_; }
  std::size_t count() const { return count_; }
  Coordinates coordinates(std::size_t index) const;
  Coordinates moved(Coordinates at, std::size_t index) const;  // the same place along the other axes
  std::size_t index(const Coordinates& coordinates) const;

 private:
  AxisList axes_;
  const mesh::Mesh* mesh_;
  std::size_t count_ = 1;
};

// The shards that some devices have, equal ones once, in the order of ShardAxes.
class OwnedShards {
 public:
  OwnedShards(AxisList axes, const mesh::Mesh& mesh, const std::vector<Coordinates>& devices);

  std::size_t count() const { return devices_.size(); }
  const Coordinates& device(std::size_t shard) const { return devices_[shard]; }  // the first that has it
  std::optional<std::size_t> find(const Coordinates& at) const;

 private:
  ShardAxes axes_;
  std::vector<std::size_t> indices_;  // sorted
  std::vector<Coordinates> devices_;
};

// Which of a list of axes' blocks a device has, the first axis major.
std::int64_t block_index(const AxisList& axes, const mesh::Mesh& mesh, const Coordinates& at);

// The part of each dim that the shard at these coordinates has: blocks of ceil size, the last ones smaller or empty.
std::vector<Range> block_of(const Shape& shape, const Spec& spec, const mesh::Mesh& mesh, const Coordinates& at);

Shape shape_of(const std::vector<Range>& block);

}  // namespace moesh::sharding
