#include "partition/reshard.h"

#include <algorithm>
#include <cassert>
#include <numeric>
#include <utility>

#include "base/error.h"

namespace moesh::partition {
namespace {

using graph::ReshardOf;
using sharding::AxisIndex;
using sharding::AxisList;
using sharding::holds;
using sharding::holds_all;
using sharding::Spec;
using Kind = ReshardOf::Kind;

// The dim that an axis shards, or -1.
int dim_of(const Spec& spec, AxisIndex axis) {
  for (std::size_t dim = 0; dim < spec.dims.size(); ++dim) {
    if (holds(spec.dims[dim], axis)) return static_cast<int>(dim);
  }
  return -1;
}

constexpr std::size_t kMostOrdered = 3;  // dims of which all orders are tried

// What is left open by two layouts.
struct Decision {
  std::vector<std::size_t> order;   // in which dims gain or lose axes
  std::optional<std::size_t> rest;  // a partial sum is reduce-scattered at once over all its axes; those that belong nowhere go to this dim
};

class Way {
 public:
  Way(Spec from, const Spec& to, const mesh::Mesh& mesh, const Decision& decision)
      : now_(std::move(from)), to_(to), mesh_(mesh), decision_(decision) {
    assert(now_.dims.size() == to.dims.size());
  }

  std::vector<ReshardStep> find() {
    for (std::size_t i = 0; i < now_.dims.size(); ++i) put_leaving_last(i);
    if (decision_.rest) sum_at_once(*decision_.rest);
    while (now_ != to_) {
      const bool moved = arrive(Kind::slice) || arrive(Kind::reduce_scatter) || exchange() || reduce() || reorder() ||
                         gather(true) || gather(false);
      if (!moved) fail_to_reshard("");
    }
    return std::move(steps_);
  }

 private:
  AxisList& now(std::size_t dim) { return now_.dims[dim]; }
  const AxisList& to(std::size_t dim) const { return to_.dims[dim]; }

  void add(Kind kind, AxisList axes, int from, int to) { steps_.push_back({{kind, std::move(axes), from, to}, now_}); }

  // A dim can gain and lose only its last axes. One permute puts the axes that are to leave after those that stay.
  void put_leaving_last(std::size_t dim) {
    AxisList ordered;
    for (const AxisIndex axis : to(dim)) {
      if (holds(now(dim), axis)) ordered.push_back(axis);
    }
    const std::size_t staying = ordered.size();
    for (const AxisIndex axis : now(dim)) {
      if (!holds(ordered, axis)) ordered.push_back(axis);
    }
    const bool in_the_way = !std::equal(ordered.begin(), ordered.begin() + static_cast<std::ptrdiff_t>(staying), now(dim).begin());
    // If no axis leaves, reordering can wait: axes that are still to come may need another permute anyway.
    if (!in_the_way || staying == ordered.size()) return;
    AxisList axes = now(dim);
    now(dim) = ordered;
    add(Kind::permute, std::move(axes), static_cast<int>(dim), static_cast<int>(dim));
  }

  bool is_free(AxisIndex axis) const { return dim_of(now_, axis) < 0 && !holds(now_.partial, axis); }
  bool is_to_be_summed(AxisIndex axis) const { return holds(now_.partial, axis) && !holds(to_.partial, axis); }

  // Adds axes to a dim: unused ones by a slice, those of a partial sum by a reduce-scatter.
  bool arrive(Kind kind) {
    for (const std::size_t dim : decision_.order) {
      if (!holds_all(to(dim), now(dim))) continue;
      AxisList axes;
      for (const AxisIndex axis : to(dim)) {
        if (kind == Kind::slice ? is_free(axis) : is_to_be_summed(axis)) axes.push_back(axis);
      }
      if (axes.empty()) continue;
      for (const AxisIndex axis : axes) {
        now(dim).push_back(axis);
        erase(now_.partial, axis);
      }
      add(kind, std::move(axes), -1, static_cast<int>(dim));
      return true;
    }
    return false;
  }

  // One reduce-scatter over all axes of a partial sum, if no dim has axes that are still to leave it.
  void sum_at_once(std::size_t rest) {
    for (std::size_t dim = 0; dim < now_.dims.size(); ++dim) {
      if (!holds_all(to(dim), now(dim))) return;
    }
    while (arrive(Kind::slice)) continue;
    AxisList axes;
    for (std::size_t dim = 0; dim < now_.dims.size(); ++dim) {
      for (const AxisIndex axis : to(dim)) {
        if (!is_to_be_summed(axis)) continue;
        now(dim).push_back(axis);
        axes.push_back(axis);
      }
    }
    for (const AxisIndex axis : now_.partial) {
      if (holds(axes, axis) || holds(to_.partial, axis)) continue;
      now(rest).push_back(axis);
      axes.push_back(axis);
    }
    for (const AxisIndex axis : axes) erase(now_.partial, axis);
    const bool is_one_dim = std::all_of(axes.begin(), axes.end(), [&](AxisIndex axis) { return holds(now(rest), axis); });
    add(Kind::reduce_scatter, std::move(axes), -1, is_one_dim ? static_cast<int>(rest) : -1);
  }

  // Moves the last axes of one dim to the dim that they belong to, by an all-to-all.
  bool exchange() {
    for (std::size_t from = 0; from < now_.dims.size(); ++from) {
      for (std::size_t dim = 0; dim < now_.dims.size(); ++dim) {
        if (dim == from || !holds_all(to(dim), now(dim))) continue;
        AxisList axes;
        while (!now(from).empty() && holds(to(dim), now(from).back())) {
          axes.insert(axes.begin(), now(from).back());
          now(from).pop_back();
        }
        if (axes.empty()) continue;
        now(dim).insert(now(dim).end(), axes.begin(), axes.end());
        add(Kind::all_to_all, std::move(axes), static_cast<int>(from), static_cast<int>(dim));
        return true;
      }
    }
    return false;
  }

  bool reduce() {
    AxisList axes;
    for (const AxisIndex axis : now_.partial) {
      if (is_to_be_summed(axis) && dim_of(to_, axis) < 0) axes.push_back(axis);
    }
    if (axes.empty()) return false;
    for (const AxisIndex axis : axes) erase(now_.partial, axis);
    add(Kind::all_reduce, std::move(axes), -1, -1);
    return true;
  }

  // If every dim already has the right number of shards, one permute sends each device's shard whole to another device.
  bool reorder() {
    if (now_.partial != to_.partial || now_.dims == to_.dims) return false;
    for (std::size_t dim = 0; dim < now_.dims.size(); ++dim) {
      if (sharding::shards(now(dim), mesh_) != sharding::shards(to(dim), mesh_)) return false;
    }
    AxisList axes;
    for (std::size_t dim = 0; dim < now_.dims.size(); ++dim) {
      if (now(dim) == to(dim)) continue;
      for (const AxisList* list : {&std::as_const(now_.dims[dim]), &to_.dims[dim]}) {
        for (const AxisIndex axis : *list) {
          if (!holds(axes, axis)) axes.push_back(axis);
        }
      }
    }
    now_.dims = to_.dims;
    add(Kind::permute, std::move(axes), -1, -1);
    return true;
  }

  // Gathers the last axes of a dim: those that no dim wants or, if dims wait for each other's axes, all that do not belong there.
  bool gather(bool only_unwanted) {
    for (const std::size_t dim : decision_.order) {
      AxisList axes;
      while (!now(dim).empty()) {
        const AxisIndex last = now(dim).back();
        if (only_unwanted ? dim_of(to_, last) >= 0 : holds(to(dim), last)) break;
        axes.insert(axes.begin(), last);
        now(dim).pop_back();
      }
      if (axes.empty()) continue;
      add(Kind::all_gather, std::move(axes), static_cast<int>(dim), -1);
      return true;
    }
    return false;
  }

  Spec now_;
  const Spec& to_;
  const mesh::Mesh& mesh_;
  const Decision& decision_;
  std::vector<ReshardStep> steps_;
};

Spec with_sorted_partial(Spec spec) {
  std::sort(spec.partial.begin(), spec.partial.end());
  return spec;
}

std::vector<std::size_t> natural_order(const Spec& spec) {
  std::vector<std::size_t> order(spec.dims.size());
  std::iota(order.begin(), order.end(), 0);
  return order;
}

// The dims to which a partial sum is reduce-scattered.
std::vector<std::size_t> scattered_dims(const Spec& from, const Spec& to) {
  std::vector<std::size_t> dims;
  for (std::size_t dim = 0; dim < to.dims.size(); ++dim) {
    const AxisList& axes = to.dims[dim];
    if (std::any_of(axes.begin(), axes.end(), [&](AxisIndex axis) { return holds(from.partial, axis); })) dims.push_back(dim);
  }
  return dims;
}

// The dims that lose axes which no other dim gains.
std::vector<std::size_t> gathered_dims(const Spec& from, const Spec& to) {
  std::vector<std::size_t> dims;
  for (std::size_t dim = 0; dim < to.dims.size(); ++dim) {
    const AxisList& axes = from.dims[dim];
    if (std::any_of(axes.begin(), axes.end(), [&](AxisIndex axis) { return dim_of(to, axis) < 0; })) dims.push_back(dim);
  }
  return dims;
}

std::vector<std::size_t> merged(std::vector<std::size_t> a, const std::vector<std::size_t>& b) {
  a.insert(a.end(), b.begin(), b.end());
  std::sort(a.begin(), a.end());
  a.erase(std::unique(a.begin(), a.end()), a.end());
  return a;
}

// The natural order, and all others of these dims among each other.
std::vector<std::vector<std::size_t>> orders_of(std::vector<std::size_t> dims, const std::vector<std::size_t>& natural) {
  if (dims.size() < 2 || dims.size() > kMostOrdered) return {natural};
  const std::vector<std::size_t> places = dims;
  std::vector<std::vector<std::size_t>> orders;
  do {
    std::vector<std::size_t> order = natural;
    for (std::size_t i = 0; i < places.size(); ++i) order[places[i]] = dims[i];
    orders.push_back(std::move(order));
  } while (std::next_permutation(dims.begin(), dims.end()));
  return orders;
}

}  // namespace

void fail_to_reshard(const std::string& path) {
  fail("no collectives lead from one layout to another", path, "choose another rule set or mesh, and report this one");
}

std::vector<std::vector<ReshardStep>> reshard_ways(const Shape& shape, const Spec& from, const Spec& to, const mesh::Mesh& mesh) {
  const Spec start = with_sorted_partial(from), goal = with_sorted_partial(to);
  const std::vector<std::size_t> scattered = scattered_dims(start, goal);
  std::vector<std::vector<ReshardStep>> ways;
  for (std::vector<std::size_t>& order : orders_of(merged(scattered, gathered_dims(start, goal)), natural_order(start))) {
    ways.push_back(Way(start, goal, mesh, {std::move(order), std::nullopt}).find());
  }
  for (const std::size_t rest : scattered) {
    std::vector<ReshardStep> way = Way(start, goal, mesh, {natural_order(start), rest}).find();
    const bool divides =
        std::all_of(way.begin(), way.end(), [&](const ReshardStep& step) { return sharding::divides(shape, step.result, mesh); });
    if (divides) ways.push_back(std::move(way));
  }
  return ways;
}

}  // namespace moesh::partition
