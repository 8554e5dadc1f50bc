#include "sharding/blocks.h"

#include <algorithm>
#include <map>

#include "base/rounding.h"

namespace moesh::sharding {

ShardAxes::ShardAxes(AxisList axes, const mesh::Mesh& mesh) : axes_(std::move(axes)), mesh_(&mesh) {
  for (const AxisIndex axis : axes_) count_ *= static_cast<std::size_t>(mesh.axis(axis).size());
}

ShardAxes::ShardAxes(const Spec& spec, const mesh::Mesh& mesh) : ShardAxes(distinct_axes(spec), mesh) {}

Coordinates ShardAxes::coordinates(std::size_t index) const { return moved(Coordinates(mesh_->axes().size(), 0), index); }

Coordinates ShardAxes::moved(Coordinates at, std::size_t index) const {
  for (std::size_t i = axes_.size(); i-- > 0;) {
    const auto size = static_cast<std::size_t>(mesh_->axis(axes_[i]).size());
    at[axes_[i]] = static_cast<std::int64_t>(index % size);
    index /= size;
  }
  return at;
}

std::size_t ShardAxes::index(const Coordinates& coordinates) const {
  return static_cast<std::size_t>(block_index(axes_, *mesh_, coordinates));
}

OwnedShards::OwnedShards(AxisList axes, const mesh::Mesh& mesh, const std::vector<Coordinates>& devices)
    : axes_(std::move(axes), mesh) {
  std::map<std::size_t, const Coordinates*> first;
  for (const Coordinates& device : devices) first.try_emplace(axes_.index(device), &device);
  for (const auto& [index, device] : first) {
    indices_.push_back(index);
    devices_.push_back(*device);
  }
}

std::optional<std::size_t> OwnedShards::find(const Coordinates& at) const {
  const std::size_t index = axes_.index(at);
  const auto found = std::lower_bound(indices_.begin(), indices_.end(), index);
  if (found == indices_.end() || *found != index) return std::nullopt;
  return static_cast<std::size_t>(found - indices_.begin());
}

std::int64_t block_index(const AxisList& axes, const mesh::Mesh& mesh, const Coordinates& at) {
  std::int64_t index = 0;
  for (const AxisIndex axis : axes) index = index * mesh.axis(axis).size() + at[axis];
  return index;
}

std::vector<Range> block_of(const Shape& shape, const Spec& spec, const mesh::Mesh& mesh, const Coordinates& at) {
  std::vector<Range> block;
  for (std::size_t dim = 0; dim < shape.size(); ++dim) {
    if (dim >= spec.dims.size() || spec.dims[dim].empty()) {
      block.push_back({0, shape[dim]});
      continue;
    }
    const std::int64_t count = shards(spec.dims[dim], mesh);
    const std::int64_t size = divide_up(shape[dim], count);
    const std::int64_t begin = std::min(shape[dim], size * block_index(spec.dims[dim], mesh, at));
    block.push_back({begin, std::min(shape[dim], begin + size)});
  }
  return block;
}

Shape shape_of(const std::vector<Range>& block) {
  Shape shape;
  for (const Range& range : block) shape.push_back(range.size());
  return shape;
}

std::int64_t volume(const std::vector<Range>& block) { return common_volume(block, block); }

std::int64_t common_volume(const std::vector<Range>& a, const std::vector<Range>& b) {
  std::int64_t count = 1;
  for (std::size_t dim = 0; dim < a.size(); ++dim)
    count *= std::max<std::int64_t>(0, std::min(a[dim].end, b[dim].end) - std::max(a[dim].begin, b[dim].begin));
  return count;
}

}  // namespace moesh::sharding
