#include "run/placed.h"

#include <algorithm>

#include "run/exchange.h"

namespace moesh::run {
namespace {

using sharding::AxisIndex;
using sharding::AxisList;
using sharding::Spec;

std::vector<View> views_of(const std::vector<Array>& shards) {
  std::vector<View> views;
  for (const Array& shard : shards) views.push_back(shard.view);
  return views;
}

}  // namespace

ShardAxes::ShardAxes(AxisList axes, const mesh::Mesh& mesh) : axes_(std::move(axes)), mesh_(&mesh) {
  for (const AxisIndex axis : axes_) count_ *= static_cast<std::size_t>(mesh.axis(axis).size());
}

ShardAxes::ShardAxes(const Spec& spec, const mesh::Mesh& mesh) : ShardAxes(sharding::distinct_axes(spec), mesh) {}

Coordinates ShardAxes::coordinates(std::size_t index) const {
  Coordinates at(mesh_->axes().size(), 0);
  for (std::size_t i = axes_.size(); i-- > 0;) {
    const auto size = static_cast<std::size_t>(mesh_->axis(axes_[i]).size());
    at[axes_[i]] = static_cast<std::int64_t>(index % size);
    index /= size;
  }
  return at;
}

std::size_t ShardAxes::index(const Coordinates& coordinates) const {
  std::size_t index = 0;
  for (const AxisIndex axis : axes_) {
    index = index * static_cast<std::size_t>(mesh_->axis(axis).size()) + static_cast<std::size_t>(coordinates[axis]);
  }
  return index;
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
    const std::int64_t count = sharding::shards(spec.dims[dim], mesh);
    const std::int64_t size = (shape[dim] + count - 1) / count;
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

Placed unfilled(const Shape& shape, DType dtype, const Spec& spec, const mesh::Mesh& mesh, Pool& pool) {
  const ShardAxes axes(spec, mesh);
  Placed made{shape, spec, {}};
  for (std::size_t i = 0; i < axes.count(); ++i) {
    made.shards.push_back(pool.allocate(shape_of(block_of(shape, spec, mesh, axes.coordinates(i))), dtype));
  }
  return made;
}

std::int64_t Placed::bytes() const {
  std::int64_t sum = 0;
  for (const Array& shard : shards) sum += shard.bytes();
  return sum;
}

Placed place(const Array& whole, const Spec& spec, const mesh::Mesh& mesh, Pool& pool) {
  const ShardAxes axes(spec, mesh);
  if (axes.count() == 1) return {whole.view.shape, spec, {whole}};
  const Placed placed = unfilled(whole.view.shape, whole.view.dtype, spec, mesh, pool);
  place_into(whole, placed, mesh);
  return placed;
}

void place_into(const Array& whole, const Placed& shards, const mesh::Mesh& mesh) {
  Exchange(shards.shape, {}, shards.spec, mesh).run(views_of({whole}), views_of(shards.shards));
}

Array gathered(const Placed& value, const mesh::Mesh& mesh, Pool& pool, Workers& workers) {
  return reshard(value, sharding::whole_spec(value.shape.size()), mesh, pool, workers).shards.front();
}

Placed reshard(const Placed& value, const Spec& to, const mesh::Mesh& mesh, Pool& pool, Workers& workers) {
  const Placed made = unfilled(value.shape, value.shards.front().view.dtype, to, mesh, pool);
  Exchange(value.shape, value.spec, to, mesh).run(views_of(value.shards), views_of(made.shards), &workers);
  return made;
}

}  // namespace moesh::run
