#include "transport/exchange.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <numeric>

#include "backend/element.h"
#include "backend/scratch_list.h"
#include "base/bytes.h"
#include "base/rounding.h"
#include "mesh/sum_order.h"
#include "transport/device_sum.h"

namespace moesh::transport {
namespace {

using mesh::Owners;
using sharding::AxisIndex;
using sharding::AxisList;
using sharding::holds;
using sharding::OwnedShards;
using sharding::ShardAxes;
using sharding::Spec;
using sharding::united;
using sharding::without;

constexpr std::size_t kMostDims = 8;

// The axes of a sum over which the old value is partial and the new one is not, sorted.
AxisList summed_axes(const Move& move) { return united(without(move.from.partial, move.to.partial), {}); }

}  // namespace

std::int64_t Exchange::Part::elements() const {
  return std::accumulate(dims.begin(), dims.end(), run, [](std::int64_t n, const Dim& dim) { return n * dim.count; });
}

// What is needed if new shards are put together from blocks of old ones. A new shard that stays a partial sum takes the old ones
// that agree with it along the axes over which it stays partial.
class Exchange::Needs {
 public:
  Needs(const Move& move, const mesh::Mesh& mesh)
      : move_(move),
        mesh_(mesh),
        summed_(summed_axes(move)),
        kept_(without(move.from.partial, summed_)),
        old_(sharding::distinct_axes(move.from)),
        members_(summed_, mesh),
        blocks_(without(without(old_, summed_), kept_), mesh) {}

  AxisList old_axes() const { return old_; }     // axes along which the needed blocks differ
  AxisList view_axes() const { return old_; }    // axes along which the views that hold them differ
  AxisList new_axes() const { return sharding::distinct_axes(move_.to); }  // axes along which new shards differ
  AxisList target_axes() const { return new_axes(); }  // axes along which separately made parts of new shards differ
  bool is_in_place() const { return false; }

  std::vector<Need> of(const Coordinates& device) const {
    std::vector<Need> needs;
    const std::vector<Range> block = block_of(move_.shape, move_.to, mesh_, device);
    for (std::size_t b = 0; b < blocks_.count(); ++b) {
      const Coordinates at = blocks_.moved(device, b);
      Need need{part_of(block_of(move_.shape, move_.from, mesh_, at), block), {}};
      if (need.part.run == 0) continue;
      for (std::size_t m = 0; m < members_.count(); ++m) need.from.push_back(members_.moved(at, m));
      needs.push_back(std::move(need));
    }
    return needs;
  }

 private:
  const Move& move_;
  const mesh::Mesh& mesh_;
  AxisList summed_, kept_, old_;
  ShardAxes members_, blocks_;
};

// What is needed if the devices of a group share out the elements of a shard that all of them get, in equal pieces as far as they
// go. `is_made`: the second half, in which each device takes the finished pieces of the others.
class Exchange::Pieces {
 public:
  Pieces(const Move& move, const mesh::Mesh& mesh, bool is_made)
      : move_(move), mesh_(mesh), summed_(summed_axes(move)), members_(summed_, mesh), is_made_(is_made) {}

  AxisList old_axes() const { return is_made_ ? united(new_axes(), summed_) : sharding::distinct_axes(move_.from); }
  AxisList view_axes() const { return is_made_ ? new_axes() : old_axes(); }
  AxisList new_axes() const { return sharding::distinct_axes(move_.to); }
  AxisList target_axes() const { return is_made_ ? new_axes() : united(new_axes(), summed_); }
  bool is_in_place() const { return is_made_; }

  std::vector<Need> of(const Coordinates& device) const {
    const Shape shape = shape_of(block_of(move_.shape, move_.to, mesh_, device));
    const std::int64_t count = elements(shape);
    const auto members = static_cast<std::int64_t>(members_.count());
    const std::int64_t each = divide_up(count, members);
    std::vector<Need> needs;
    for (std::int64_t m = 0; m < members; ++m) {
      const Coordinates maker = members_.moved(device, static_cast<std::size_t>(m));
      const std::int64_t begin = std::min(count, m * each), size = std::min(count, begin + each) - begin;
      if (size == 0 || (!is_made_ && maker != device)) continue;
      Need need{{begin, begin, size}, {}};
      if (is_made_) {
        need.from.push_back(maker);
      } else {
        for (std::size_t other = 0; other < members_.count(); ++other) {
          need.from.push_back(members_.moved(device, other));
        }
      }
      needs.push_back(std::move(need));
    }
    return needs;
  }

 private:
  const Move& move_;
  const mesh::Mesh& mesh_;
  AxisList summed_;
  ShardAxes members_;
  bool is_made_;
};

template <typename Find>
void Exchange::connect(const Find& find, const Owners& owners, int self) {
  const mesh::Mesh& mesh = owners.mesh();
  const OwnedShards views(find.view_axes(), mesh, owners.devices(self)), made(find.new_axes(), mesh, owners.devices(self));
  work_.resize(made.count());
  outgoing_.resize(static_cast<std::size_t>(owners.count()));
  incoming_.resize(static_cast<std::size_t>(owners.count()));
  const auto take = [&](const Coordinates& device, const Need& need, const OwnedShards& here) {
    Work work{need.part, {}};
    bool is_done = find.is_in_place();
    for (const Coordinates& from : need.from) {
      if (here.find(from)) {
        work.sources.push_back({-1, static_cast<std::int64_t>(*views.find(from))});
        continue;
      }
      std::int64_t& incoming = incoming_[static_cast<std::size_t>(owners.of(from))];
      work.sources.push_back({owners.of(from), incoming});
      incoming += need.part.elements();
      is_done = false;
    }
    if (!is_done) work_[*made.find(device)].push_back(std::move(work));
  };
  const auto give = [&](int owner, const Need& need, const OwnedShards& there) {
    for (const Coordinates& from : need.from) {
      if (owners.of(from) == self && !there.find(from))
        outgoing_[static_cast<std::size_t>(owner)].push_back({*views.find(from), need.part});
    }
  };
  for (int owner = 0; owner < owners.count(); ++owner) {
    const OwnedShards old(find.old_axes(), mesh, owners.devices(owner)), targets(find.target_axes(), mesh, owners.devices(owner));
    for (std::size_t t = 0; t < targets.count(); ++t) {
      for (const Need& need : find.of(targets.device(t))) owner == self ? take(targets.device(t), need, old) : give(owner, need, old);
    }
  }
  // Devices with the same coordinates along these axes receive the same amount.
  const ShardAxes old(find.old_axes(), mesh), alike(united(find.old_axes(), find.target_axes()), mesh);
  std::vector<std::int64_t> devices(alike.count());
  for (const Coordinates& device : owners.devices(self)) ++devices[alike.index(device)];
  for (std::size_t index = 0; index < devices.size(); ++index) {
    if (devices[index] == 0) continue;
    const Coordinates device = alike.coordinates(index);
    for (const Need& need : find.of(device)) {
      const auto others = std::count_if(need.from.begin(), need.from.end(),
                                        [&](const Coordinates& from) { return old.index(from) != old.index(device); });
      moved_ += devices[index] * others * need.part.elements();
    }
  }
}

Exchange::Exchange(const Move& move, const Owners& owners, int self) : steps_(mesh::sum_steps(owners.mesh(), summed_axes(move))) {
  connect(Needs(move, owners.mesh()), owners, self);
}

std::vector<Exchange> Exchange::all_reduce(const Move& move, const Owners& owners, int self) {
  Exchange sum, rest;
  sum.steps_ = mesh::sum_steps(owners.mesh(), summed_axes(move));
  sum.connect(Pieces(move, owners.mesh(), false), owners, self);
  rest.connect(Pieces(move, owners.mesh(), true), owners, self);
  std::vector<Exchange> halves;
  halves.push_back(std::move(sum));
  halves.push_back(std::move(rest));
  return halves;
}

// The run has 0 elements if the blocks have nothing in common.
Exchange::Part Exchange::part_of(const std::vector<Range>& from, const std::vector<Range>& to) {
  Part part;
  std::int64_t from_stride = 1, to_stride = 1;
  bool is_contiguous = true;
  for (std::size_t dim = from.size(); dim-- > 0;) {
    const Range both{std::max(from[dim].begin, to[dim].begin), std::min(from[dim].end, to[dim].end)};
    if (both.size() <= 0) return {0, 0, 0, {}};
    part.from += (both.begin - from[dim].begin) * from_stride;
    part.to += (both.begin - to[dim].begin) * to_stride;
    if (is_contiguous) {
      part.run *= both.size();
    } else if (both.size() > 1) {
      part.dims.insert(part.dims.begin(), {both.size(), from_stride, to_stride});
    }
    is_contiguous = is_contiguous && both.size() == from[dim].size() && both.size() == to[dim].size();
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

// A long run is shared out among the workers.
template <typename T>
void Exchange::add_up(const Work& work, std::span<const View> from, const View& to, std::span<const std::byte* const> messages,
                      Workers* workers) const {
  constexpr std::int64_t kGrain = 1 << 15;
  backend::ScratchList<const T*> all;
  DeviceSum<T> sum(steps_);
  std::int64_t done = 0;
  for_each_run(work.part, [&](std::int64_t f, std::int64_t t) {
    all.clear();
    for (const Source& source : work.sources) {
      all.push_back(source.owner < 0 ? from[static_cast<std::size_t>(source.index)].as<T>() + f
                                     : reinterpret_cast<const T*>(messages[static_cast<std::size_t>(source.owner)]) + source.index + done);
    }
    const std::span<const T* const> values(all);
    done += work.part.run;
    if (workers == nullptr || work.part.run <= kGrain) return sum.add_up(values, 0, work.part.run, to.as<T>() + t);
    workers->parallel(work.part.run, kGrain, [&](std::int64_t begin, std::int64_t end) {
      DeviceSum<T>(steps_).add_up(values, begin, end - begin, to.as<T>() + t + begin);
    });
  });
}

void Exchange::make(const Work& work, std::span<const View> from, const View& to, std::span<const std::byte* const> messages,
                    Workers* workers) const {
  if (!steps_.empty()) {
    backend::for_floating(to.dtype, [&]<typename T>() { add_up<T>(work, from, to, messages, workers); });
    return;
  }
  const std::int64_t size = size_of(to.dtype);
  const Source& source = work.sources.front();
  const std::int64_t bytes = work.part.run * size;
  if (source.owner < 0) {
    const std::byte* data = from[static_cast<std::size_t>(source.index)].raw();
    for_each_run(work.part, [&](std::int64_t f, std::int64_t t) { copy_bytes(to.raw() + t * size, data + f * size, bytes); });
    return;
  }
  const std::byte* data = messages[static_cast<std::size_t>(source.owner)] + source.index * size;
  for_each_run(work.part, [&](std::int64_t, std::int64_t t) {
    copy_bytes(to.raw() + t * size, data, bytes);
    data += bytes;
  });
}

void Exchange::send(std::span<const View> from, Endpoint& wire) const {
  for (std::size_t owner = 0; owner < outgoing_.size(); ++owner) {
    if (outgoing_[owner].empty()) continue;
    const std::int64_t size = size_of(from.front().dtype);
    const std::int64_t count = std::accumulate(outgoing_[owner].begin(), outgoing_[owner].end(), std::int64_t{0},
                                               [](std::int64_t n, const Outgoing& out) { return n + out.part.elements(); });
    std::byte* to = wire.room(static_cast<int>(owner), count * size).data();
    for (const Outgoing& out : outgoing_[owner]) {
      const std::int64_t bytes = out.part.run * size;
      for_each_run(out.part, [&](std::int64_t f, std::int64_t) {
        copy_bytes(to, from[out.view].raw() + f * size, bytes);
        to += bytes;
      });
    }
    wire.send(static_cast<int>(owner));
  }
}

void Exchange::run(std::span<const View> from, std::span<const View> to, Workers* workers, Endpoint* wire) const {
  std::vector<const std::byte*> messages(incoming_.size() > 1 ? incoming_.size() : 0);
  for (std::size_t owner = 0; owner < messages.size(); ++owner) {
    if (incoming_[owner] > 0) messages[owner] = wire->receive(static_cast<int>(owner)).data();
  }
  const auto make_all = [&](std::int64_t begin, std::int64_t end) {
    for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end); ++i) {
      for (const Work& work : work_[i]) make(work, from, to[i], messages, workers);
    }
  };
  const auto count = static_cast<std::int64_t>(work_.size());
  workers == nullptr ? make_all(0, count) : workers->parallel(count, 1, make_all);
}

}  // namespace moesh::transport
