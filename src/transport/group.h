// The group of devices that take part in an op of a region, seen from one of them.
#pragma once

#include "graph/graph.h"
#include "sharding/blocks.h"

namespace moesh::transport {

using sharding::Coordinates;

class Group {
 public:
  Group(sharding::AxisList axes, const mesh::Mesh& mesh) : axes_(std::move(axes), mesh) {}

  std::int64_t members() const { return static_cast<std::int64_t>(axes_.count()); }
  std::int64_t member(const Coordinates& at) const { return static_cast<std::int64_t>(axes_.index(at)); }
  Coordinates coordinates(const Coordinates& at, std::int64_t member) const { return axes_.moved(at, static_cast<std::size_t>(member)); }

 private:
  sharding::ShardAxes axes_;
};

}  // namespace moesh::transport
