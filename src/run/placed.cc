#include "run/placed.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "mesh/sum_order.h"
#include "run/cpu/device_sum.h"

namespace moesh::run {
namespace {

using sharding::AxisIndex;
using sharding::AxisList;
using sharding::holds;
using sharding::Spec;

// A block of a value, dense.
class Block {
 public:
  explicit Block(const std::vector<Range>& holder) {
    std::int64_t pitch = 1;
    pitches_.resize(holder.size());
    for (std::size_t dim = holder.size(); dim-- > 0;) {
      pitches_[dim] = pitch;
      pitch *= holder[dim].size();
      begins_.insert(begins_.begin(), holder[dim].begin);
    }
  }

  // Offset of an element by its place in the whole.
  std::int64_t offset(const std::vector<std::int64_t>& place) const {
    std::int64_t offset = 0;
    for (std::size_t dim = 0; dim < place.size(); ++dim) offset += (place[dim] - begins_[dim]) * pitches_[dim];
    return offset;
  }

 private:
  std::vector<std::int64_t> pitches_;
  std::vector<std::int64_t> begins_;
};

// Calls visit(offset in a, offset in b, elements) for the runs of `part` that are contiguous in both holders.
template <typename Visit>
void for_each_run(const std::vector<Range>& a, const std::vector<Range>& b, const std::vector<Range>& part, const Visit& visit) {
  const std::size_t rank = part.size();
  for (const Range& range : part) {
    if (range.size() <= 0) return;
  }
  // The last dims that are whole in both make one run with the dim before them.
  std::size_t joined = rank;
  std::int64_t run = 1;
  while (joined > 0) {
    --joined;
    run *= part[joined].size();
    const bool goes_on = a[joined].size() == part[joined].size() && b[joined].size() == part[joined].size();
    if (!goes_on) break;
  }
  const Block of_a(a);
  const Block of_b(b);
  std::vector<std::int64_t> place;
  for (const Range& range : part) place.push_back(range.begin);
  while (true) {
    visit(of_a.offset(place), of_b.offset(place), run);
    std::size_t dim = joined;
    while (dim > 0) {
      --dim;
      if (++place[dim] < part[dim].end) break;
      place[dim] = part[dim].begin;
      if (dim == 0) return;
    }
    if (joined == 0) return;
  }
}

std::vector<Range> overlap(const std::vector<Range>& a, const std::vector<Range>& b) {
  std::vector<Range> both;
  for (std::size_t dim = 0; dim < a.size(); ++dim) both.push_back({std::max(a[dim].begin, b[dim].begin), std::min(a[dim].end, b[dim].end)});
  return both;
}

// The old shards that a new one is put together from. Those of a family are one block of the value, of which each has a part of
// the sum: they differ in the axes that the value is added up over, and are numbered as mesh::sum_steps says. New shards that
// stay partial sums take the families that agree with them along the axes that stay.
class Sources {
 public:
  Sources(const Placed& value, const Spec& to, const mesh::Mesh& mesh) {
    AxisList summed;
    for (const AxisIndex axis : value.spec.partial) (holds(to.partial, axis) ? kept_ : summed).push_back(axis);
    steps_ = mesh::sum_steps(mesh, summed);
    const ShardAxes from(value.spec, mesh);
    const ShardAxes members(sorted(summed), mesh);
    const ShardAxes families(without(from.axes(), summed), mesh);
    for (std::size_t f = 0; f < families.count(); ++f) {
      Family family{families.coordinates(f), {}, {}};
      family.block = block_of(value.shape, value.spec, mesh, family.at);
      for (std::size_t m = 0; m < members.count(); ++m) {
        Coordinates at = members.coordinates(m);
        for (const AxisIndex axis : families.axes()) at[axis] = family.at[axis];
        family.shards.push_back(&value.shards[from.index(at)]);
      }
      families_.push_back(std::move(family));
    }
  }

  struct Family {
    Coordinates at;
    std::vector<Range> block;
    std::vector<const Array*> shards;
  };

  // Calls visit(family) for those that a new shard takes.
  template <typename Visit>
  void for_each_of(const Coordinates& at, const Visit& visit) const {
    for (const Family& family : families_) {
      if (std::all_of(kept_.begin(), kept_.end(), [&](AxisIndex axis) { return family.at[axis] == at[axis]; })) visit(family);
    }
  }
  bool sums() const { return !steps_.empty(); }
  const std::vector<std::int64_t>& steps() const { return steps_; }

 private:
  static AxisList sorted(AxisList axes) {
    std::sort(axes.begin(), axes.end());
    return axes;
  }
  static AxisList without(AxisList axes, const AxisList& gone) {
    std::erase_if(axes, [&](AxisIndex axis) { return holds(gone, axis); });
    return axes;
  }

  AxisList kept_;
  std::vector<std::int64_t> steps_;
  std::vector<Family> families_;
};

void copy_part(const Array& from, const std::vector<Range>& from_block, const Array& to, const std::vector<Range>& to_block) {
  const std::int64_t size = size_of(from.view.dtype);
  for_each_run(to_block, from_block, overlap(to_block, from_block), [&](std::int64_t t, std::int64_t f, std::int64_t run) {
    std::memcpy(to.raw() + t * size, from.raw() + f * size, static_cast<std::size_t>(run * size));
  });
}

// A shard of a sum. A run that is long is shared out among the workers.
template <typename T>
void add_up(const Sources& sources, const Coordinates& at, const Array& to, const std::vector<Range>& to_block, Workers& workers) {
  constexpr std::int64_t kGrain = 1 << 15;
  cpu::DeviceSum<T> sum(sources.steps());
  sources.for_each_of(at, [&](const Sources::Family& family) {
    std::vector<const T*> values;
    for (const Array* shard : family.shards) values.push_back(shard->as<T>());
    for_each_run(to_block, family.block, overlap(to_block, family.block), [&](std::int64_t t, std::int64_t f, std::int64_t run) {
      if (run <= kGrain) return sum.add_up(values, f, run, to.as<T>() + t);
      workers.parallel(run, kGrain, [&](std::int64_t begin, std::int64_t end) {
        cpu::DeviceSum<T>(sources.steps()).add_up(values, f + begin, end - begin, to.as<T>() + t + begin);
      });
    });
  });
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
  for (const Placed& slice : slices) sum += slice.bytes();
  return sum;
}

Placed place(const Array& whole, const Spec& spec, const mesh::Mesh& mesh, Pool& pool) {
  const Shape& shape = whole.view.shape;
  const ShardAxes axes(spec, mesh);
  Placed placed{shape, spec, {}};
  const std::vector<Range> all = block_of(shape, {}, mesh, {});
  for (std::size_t i = 0; i < axes.count(); ++i) {
    const std::vector<Range> block = block_of(shape, spec, mesh, axes.coordinates(i));
    if (shape_of(block) == shape) {
      placed.shards.push_back(whole);
      continue;
    }
    placed.shards.push_back(pool.allocate(shape_of(block), whole.view.dtype));
    if (!pool.only_counts()) copy_part(whole, all, placed.shards.back(), block);
  }
  return placed;
}

Array gathered(const Placed& value, const mesh::Mesh& mesh, Pool& pool, Workers& workers) {
  return reshard(value, sharding::whole_spec(value.shape.size()), mesh, pool, workers).shards.front();
}

Placed reshard(const Placed& value, const Spec& to, const mesh::Mesh& mesh, Pool& pool, Workers& workers) {
  const Sources sources(value, to, mesh);
  const ShardAxes axes(to, mesh);
  const DType dtype = value.shards.front().view.dtype;
  Placed made = unfilled(value.shape, dtype, to, mesh, pool);
  if (pool.only_counts()) return made;
  workers.parallel(static_cast<std::int64_t>(axes.count()), 1, [&](std::int64_t begin, std::int64_t end) {
    for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end); ++i) {
      const Coordinates at = axes.coordinates(i);
      const std::vector<Range> mine = block_of(value.shape, to, mesh, at);
      const Array& shard = made.shards[i];
      if (sources.sums()) {
        cpu::for_floating(dtype, [&]<typename T>() { add_up<T>(sources, at, shard, mine, workers); });
      } else {
        sources.for_each_of(at, [&](const Sources::Family& family) { copy_part(*family.shards[0], family.block, shard, mine); });
      }
    }
  });
  return made;
}

}  // namespace moesh::run
