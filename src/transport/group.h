// The devices that an op of a region works with together, seen from one of them.
#pragma once

#include "graph/graph.h"
#include "sharding/blocks.h"

namespace moesh::transport {

using sharding::Coordinates;

class Group {
 public:
  Group(sharding::AxisList axes, const mesh::Mesh& mesh)
      : mesh_(&mesh), axes_(std::move(axes)), members_(sharding::shards(axes_, mesh)) {}

  std::int64_t members() const { return members_; }
  std::int64_t member(const Coordinates& at) const { return sharding::block_index(axes_, *mesh_, at); }
  Coordinates coordinates(Coordinates at, std::int64_t member) const {
    for (std::size_t i = axes_.size(); i-- > 0;) {
      const std::int64_t size = mesh_->axis(axes_[i]).size();
      at[axes_[i]] = member % size;
      member /= size;
    }
    return at;
  }

 private:
  const mesh::Mesh* mesh_;
  sharding::AxisList axes_;
  std::int64_t members_;
};

}  // namespace moesh::transport
