// A spec, the layout of a value: for each dim the mesh axes that shard it, the axes over which the value is a partial sum, and in
// regions the axes along which devices have values of their own.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "base/shape.h"
#include "mesh/mesh.h"

namespace moesh::sharding {

using mesh::AxisIndex;
using mesh::AxisList;  // major first

struct Spec {
  std::vector<AxisList> dims;
  AxisList partial;   // the value is the sum of the values that the devices along these axes have
  AxisList own = {};  // only within a region, on one device's shapes: devices along these axes have values of their own, sorted

  bool operator==(const Spec&) const = default;
};

bool holds(const AxisList& axes, AxisIndex axis);
bool holds_all(const AxisList& axes, const AxisList& others);

// Lists as sets. `without` and `shared` keep a's order, `united` sorts.
AxisList without(AxisList a, const AxisList& b);
AxisList shared(AxisList a, const AxisList& b);
AxisList united(AxisList a, const AxisList& b);

// Whether the axis shards a dim.
bool shards_a_dim(const Spec& spec, AxisIndex axis);

std::vector<std::string> names_of(const AxisList& axes, const mesh::Mesh& mesh);

// A spec that shards nothing.
Spec whole_spec(std::size_t rank);

// The axes along which devices have different shards of a value, sorted: those that shard it, those over which it is a partial sum,
// and those along which devices have values of their own.
AxisList distinct_axes(const Spec& spec);

// The same spec without axes of size 1, which change nothing.
Spec without_size_one(const Spec& spec, const mesh::Mesh& mesh);

// The number of shards: the product of the sizes of the axes.
std::int64_t shards(const AxisList& axes, const mesh::Mesh& mesh);
std::int64_t shards(const Spec& spec, const mesh::Mesh& mesh);

// The shape of the largest shard: dims that do not divide evenly are rounded up.
Shape shard_shape(const Shape& shape, const Spec& spec, const mesh::Mesh& mesh);
std::int64_t shard_bytes(const Shape& shape, DType dtype, const Spec& spec, const mesh::Mesh& mesh);

// Whether all dims divide evenly.
bool divides(const Shape& shape, const Spec& spec, const mesh::Mesh& mesh);

// "[(fsdp, expert), -, tensor]"; partial sums follow as "+sum(data)", values of their own as "+own(expert)".
std::string to_string(const Spec& spec, const mesh::Mesh& mesh);

}  // namespace moesh::sharding
