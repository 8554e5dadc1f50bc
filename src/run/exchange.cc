#include "run/exchange.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cstring>

#include "mesh/sum_order.h"
#include "run/cpu/device_sum.h"

namespace moesh::run {
namespace {

using sharding::AxisIndex;
using sharding::AxisList;
using sharding::holds;
using sharding::Spec;

constexpr std::size_t kMostDims = 8;

AxisList sorted(AxisList axes) {
  std::sort(axes.begin(), axes.end());
  return axes;
}

AxisList without(AxisList axes, const AxisList& gone) {
  std::erase_if(axes, [&](AxisIndex axis) { return holds(gone, axis); });
  return axes;
}

}  // namespace

Exchange::Exchange(const Shape& shape, const Spec& from, const Spec& to, const mesh::Mesh& mesh) {
  // A new shard that stays a partial sum takes the families that agree with it along the axes that stay.
  AxisList kept, summed;
  for (const AxisIndex axis : from.partial) (holds(to.partial, axis) ? kept : summed).push_back(axis);
  steps_ = mesh::sum_steps(mesh, summed);
  const ShardAxes old(from, mesh), members(sorted(summed), mesh), families(without(old.axes(), summed), mesh), made(to, mesh);
  for (std::size_t f = 0; f < families.count(); ++f) {
    Family family{families.coordinates(f), {}, {}};
    family.block = block_of(shape, from, mesh, family.at);
    for (std::size_t m = 0; m < members.count(); ++m) {
      Coordinates at = members.coordinates(m);
      for (const AxisIndex axis : families.axes()) at[axis] = family.at[axis];
      family.shards.push_back(static_cast<std::uint32_t>(old.index(at)));
    }
    families_.push_back(std::move(family));
  }
  for (std::size_t i = 0; i < made.count(); ++i) {
    const Coordinates at = made.coordinates(i);
    const std::vector<Range> block = block_of(shape, to, mesh, at);
    std::vector<Part>& parts = parts_.emplace_back();
    for (std::size_t f = 0; f < families_.size(); ++f) {
      const Family& family = families_[f];
      if (!std::all_of(kept.begin(), kept.end(), [&](AxisIndex axis) { return family.at[axis] == at[axis]; })) continue;
      Part part = part_of(family.block, block);
      if (part.run == 0) continue;
      part.family = f;
      parts.push_back(std::move(part));
    }
  }
}

// No run where the two have nothing in common.
Exchange::Part Exchange::part_of(const std::vector<Range>& from, const std::vector<Range>& to) {
  Part part{0, 0, 0, 1, {}};
  std::int64_t from_stride = 1, to_stride = 1;
  bool is_run = true;
  for (std::size_t dim = from.size(); dim-- > 0;) {
    const Range both{std::max(from[dim].begin, to[dim].begin), std::min(from[dim].end, to[dim].end)};
    if (both.size() <= 0) return {0, 0, 0, 0, {}};
    part.from += (both.begin - from[dim].begin) * from_stride;
    part.to += (both.begin - to[dim].begin) * to_stride;
    if (is_run) {
      part.run *= both.size();
    } else if (both.size() > 1) {
      part.dims.insert(part.dims.begin(), {both.size(), from_stride, to_stride});
    }
    is_run = is_run && both.size() == from[dim].size() && both.size() == to[dim].size();
    from_stride *= from[dim].size();
    to_stride *= to[dim].size();
  }
  assert(part.dims.size() <= kMostDims);
  return part;
}

// Calls visit(offset in from, offset in to).
template <typename Visit>
void Exchange::for_each_run(const Part& part, const Visit& visit) {
  std::array<std::int64_t, kMostDims> place{};
  std::int64_t from = part.from, to = part.to;
  while (true) {
    visit(from, to);
    std::size_t dim = part.dims.size();
    while (dim-- > 0) {
      const Part::Dim& of = part.dims[dim];
      from += of.from_stride;
      to += of.to_stride;
      if (++place[dim] < of.count) break;
      from -= of.count * of.from_stride;
      to -= of.count * of.to_stride;
      place[dim] = 0;
    }
    if (dim == static_cast<std::size_t>(-1)) return;
  }
}

void Exchange::copy(const Part& part, const View& from, const View& to) const {
  const std::int64_t size = size_of(from.dtype);
  for_each_run(part, [&](std::int64_t f, std::int64_t t) {
    std::memcpy(to.raw() + t * size, from.raw() + f * size, static_cast<std::size_t>(part.run * size));
  });
}

// A run that is long is shared out among the workers.
template <typename T>
void Exchange::add_up(const Part& part, std::span<const View> from, const View& to, Workers* workers) const {
  constexpr std::int64_t kGrain = 1 << 15;
  const Family& family = families_[part.family];
  static thread_local std::vector<const T*> all;  // kept, so that nothing is allocated in a step
  all.clear();
  for (const std::uint32_t shard : family.shards) all.push_back(from[shard].as<T>());
  const std::span<const T* const> values(all);
  cpu::DeviceSum<T> sum(steps_);
  for_each_run(part, [&](std::int64_t f, std::int64_t t) {
    if (workers == nullptr || part.run <= kGrain) return sum.add_up(values, f, part.run, to.as<T>() + t);
    workers->parallel(part.run, kGrain, [&](std::int64_t begin, std::int64_t end) {
      cpu::DeviceSum<T>(steps_).add_up(values, f + begin, end - begin, to.as<T>() + t + begin);
    });
  });
}

void Exchange::make(std::size_t shard, std::span<const View> from, const View& to, Workers* workers) const {
  for (const Part& part : parts_[shard]) {
    if (steps_.empty()) {
      copy(part, from[families_[part.family].shards.front()], to);
    } else {
      cpu::for_floating(to.dtype, [&]<typename T>() { add_up<T>(part, from, to, workers); });
    }
  }
}

void Exchange::run(std::span<const View> from, std::span<const View> to, Workers* workers) const {
  const auto make_all = [&](std::int64_t begin, std::int64_t end) {
    for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end); ++i) make(i, from, to[i], workers);
  };
  const auto count = static_cast<std::int64_t>(parts_.size());
  workers == nullptr ? make_all(0, count) : workers->parallel(count, 1, make_all);
}

}  // namespace moesh::run
