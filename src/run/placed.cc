#include "run/placed.h"

#include "base/bytes.h"
#include "transport/exchange.h"

namespace moesh::run {
namespace {

using sharding::Spec;

std::vector<View> views_of(const std::vector<Array>& shards) {
  std::vector<View> views;
  for (const Array& shard : shards) views.push_back(shard.view);
  return views;
}

// Copies [outer][inner][...] as [inner][outer][...].
void swap_dims(const View& from, std::int64_t outer, std::int64_t inner, std::byte* to) {
  if (from.count() == 0) return;
  const std::int64_t bytes = from.count() / (outer * inner) * size_of(from.dtype);
  const std::byte* at = from.raw();
  for (std::int64_t o = 0; o < outer; ++o) {
    for (std::int64_t i = 0; i < inner; ++i, at += bytes) {
      copy_bytes(to + (i * outer + o) * bytes, at, bytes);
    }
  }
}

}  // namespace

Placed unfilled(const Shape& shape, DType dtype, const Spec& spec, const mesh::Mesh& mesh, Pool& pool) {
  const ShardAxes axes(spec, mesh);
  Placed made{shape, spec, {}};
  for (std::size_t i = 0; i < axes.count(); ++i) {
    made.shards.push_back(pool.allocate(sharding::shape_of(sharding::block_of(shape, spec, mesh, axes.coordinates(i))), dtype));
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
  place_into(whole, shards, mesh::Owners(mesh), 0);
}

// Nothing travels between owners, because each of them is given the whole value.
void place_into(const Array& whole, const Placed& shards, const mesh::Owners& owners, int owner) {
  const transport::Move move{shards.shape, {}, shards.spec};
  std::vector<std::byte> turned;
  View from = whole.view;
  if (shards.first > 0) {
    turned.resize(static_cast<std::size_t>(whole.bytes()));
    const std::int64_t outer = elements({from.shape.begin(), from.shape.begin() + shards.first});
    swap_dims(from, outer, from.shape[static_cast<std::size_t>(shards.first)], turned.data());
    from = {turned.data(), from.dtype, shards.shape};
  }
  transport::Exchange(move, owners, owner).run(std::vector{from}, views_of(shards.shards));
}

Placed merged(const std::vector<Placed>& of_owners, const mesh::Owners& owners, const std::vector<int>& here) {
  Placed value{of_owners.front().shape, of_owners.front().spec, {}, of_owners.front().first};
  const ShardAxes axes(value.spec, owners.mesh());
  value.shards.resize(axes.count());
  for (std::size_t owner = here.size(); owner-- > 0;) {
    const sharding::OwnedShards shards(axes.axes(), owners.mesh(), owners.devices(here[owner]));
    for (std::size_t i = 0; i < shards.count(); ++i) value.shards[axes.index(shards.device(i))] = of_owners[owner].shards[i];
  }
  return value;
}

Array gathered(const Placed& value, const mesh::Mesh& mesh, Pool& pool, Workers& workers) {
  const Array whole = reshard(value, sharding::whole_spec(value.shape.size()), mesh, pool, workers).shards.front();
  if (value.first == 0) return whole;
  const Shape shape = value.seen_shape();
  const Array made = pool.allocate(shape, whole.view.dtype);
  swap_dims(whole.view, value.shape[0], elements({shape.begin(), shape.begin() + value.first}), made.raw());
  return made;
}

Placed reshard(const Placed& value, const Spec& to, const mesh::Mesh& mesh, Pool& pool, Workers& workers) {
  const Placed made = unfilled(value.shape, value.shards.front().view.dtype, to, mesh, pool);
  transport::Exchange({value.shape, value.spec, to}, mesh).run(views_of(value.shards), views_of(made.shards), &workers);
  return made;
}

}  // namespace moesh::run
