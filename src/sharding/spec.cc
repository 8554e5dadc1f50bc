#include "sharding/spec.h"

#include <algorithm>
#include <bitset>

#include "base/rounding.h"
#include "base/text.h"

namespace moesh::sharding {
namespace {

AxisList larger_than_one(const AxisList& axes, const mesh::Mesh& mesh) {
  AxisList kept;
  std::copy_if(axes.begin(), axes.end(), std::back_inserter(kept),
               [&](AxisIndex axis) { return mesh.axis(axis).size() > 1; });
  return kept;
}

std::string listed(const AxisList& axes, const mesh::Mesh& mesh) { return join(names_of(axes, mesh), ", "); }

}  // namespace

bool holds(const AxisList& axes, AxisIndex axis) { return std::find(axes.begin(), axes.end(), axis) != axes.end(); }

bool holds_all(const AxisList& axes, const AxisList& others) {
  return std::all_of(others.begin(), others.end(), [&](AxisIndex axis) { return holds(axes, axis); });
}

AxisList without(AxisList a, const AxisList& b) {
  erase_if(a, [&](AxisIndex axis) { return holds(b, axis); });
  return a;
}

AxisList shared(AxisList a, const AxisList& b) {
  erase_if(a, [&](AxisIndex axis) { return !holds(b, axis); });
  return a;
}

AxisList united(AxisList a, const AxisList& b) {
  a.insert(a.end(), b.begin(), b.end());
  std::sort(a.begin(), a.end());
  a.erase(std::unique(a.begin(), a.end()), a.end());
  return a;
}

bool shards_a_dim(const Spec& spec, AxisIndex axis) {
  return std::any_of(spec.dims.begin(), spec.dims.end(), [&](const AxisList& axes) { return holds(axes, axis); });
}

std::vector<std::string> names_of(const AxisList& axes, const mesh::Mesh& mesh) {
  std::vector<std::string> names;
  for (const AxisIndex axis : axes) names.push_back(mesh.axis(axis).name);
  return names;
}

Spec whole_spec(std::size_t rank) {
  Spec spec;
  spec.dims.resize(rank);
  return spec;
}

AxisList distinct_axes(const Spec& spec) {
  std::bitset<mesh::kMostAxes> is_there;
  const auto add = [&](const AxisList& axes) {
    for (const AxisIndex axis : axes) is_there.set(axis);
  };
  add(spec.partial);
  add(spec.own);
  for (const AxisList& dim : spec.dims) add(dim);
  AxisList axes;
  for (AxisIndex axis = 0; axis < mesh::kMostAxes; ++axis) {
    if (is_there[axis]) axes.push_back(axis);
  }
  return axes;
}

Spec without_size_one(const Spec& spec, const mesh::Mesh& mesh) {
  Spec slim;
  for (const AxisList& axes : spec.dims) slim.dims.push_back(larger_than_one(axes, mesh));
  slim.partial = larger_than_one(spec.partial, mesh);
  slim.own = larger_than_one(spec.own, mesh);
  return slim;
}

std::int64_t shards(const AxisList& axes, const mesh::Mesh& mesh) {
  std::int64_t product = 1;
  for (const AxisIndex axis : axes) product *= mesh.axis(axis).size();
  return product;
}

std::int64_t shards(const Spec& spec, const mesh::Mesh& mesh) {
  std::int64_t product = 1;
  for (const AxisList& axes : spec.dims) product *= shards(axes, mesh);
  return product;
}

Shape shard_shape(const Shape& shape, const Spec& spec, const mesh::Mesh& mesh) {
  Shape local = shape;
  for (std::size_t dim = 0; dim < spec.dims.size(); ++dim) {
    const std::int64_t blocks = shards(spec.dims[dim], mesh);
    local[dim] = divide_up(shape[dim], blocks);
  }
  return local;
}

std::int64_t shard_bytes(const Shape& shape, DType dtype, const Spec& spec, const mesh::Mesh& mesh) {
  return elements(shard_shape(shape, spec, mesh)) * size_of(dtype);
}

bool divides(const Shape& shape, const Spec& spec, const mesh::Mesh& mesh) {
  for (std::size_t dim = 0; dim < spec.dims.size(); ++dim) {
    if (shape[dim] % shards(spec.dims[dim], mesh) != 0) return false;
  }
  return true;
}

std::string to_string(const Spec& spec, const mesh::Mesh& mesh) {
  std::vector<std::string> words;
  for (const AxisList& axes : spec.dims) {
    if (axes.empty()) {
      words.emplace_back("-");
    } else {
      words.push_back(axes.size() == 1 ? listed(axes, mesh) : "(" + listed(axes, mesh) + ")");
    }
  }
  std::string text = "[" + join(words, ", ") + "]";
  if (!spec.partial.empty()) text += " +sum(" + listed(spec.partial, mesh) + ")";
  if (!spec.own.empty()) text += " +own(" + listed(spec.own, mesh) + ")";
  return text;
}

}  // namespace moesh::sharding
