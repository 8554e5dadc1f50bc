#include "partition/assignment.h"

#include <algorithm>
#include <limits>
#include <unordered_map>
#include <utility>

#include <fmt/core.h>

#include "base/error.h"
#include "base/rounding.h"
#include "cost/kernel.h"
#include "graph/work.h"

namespace moesh::partition {
namespace {

using graph::Factor;
using graph::kWhole;
using sharding::AxisIndex;
using sharding::AxisList;
using sharding::holds;
using sharding::Spec;

constexpr int kNone = -1;   // all devices along the axis do the same work
constexpr int kCarry = -2;  // operands are partial sums over the axis, and so are the results

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr double kMostWays = 1024;  // up to this many assignments, all are tried; beyond it the search descends

bool is_partial(const Candidate& value, AxisIndex axis) {
  return std::any_of(value.versions.begin(), value.versions.end(),
                     [&](const Spec& v) { return holds(v.partial, axis); });
}

// The axes of each factor, taken from the spec of an operand or of a wanted result.
using ByFactor = std::vector<AxisList>;

// A bit set of mesh axes: bit i stands for the i-th axis that is larger than one.
using AxisSet = std::uint16_t;

// A factor with a set of axes: whether they may shard it, in which order, and the factor's size on one device.
struct Sharded {
  bool is_possible = false;
  AxisList axes;
  std::int64_t size = 1;
};

// The price of an operand or a result in one layout: the seconds to reshard an operand to it, or a result from it to the layout
// that is wanted, and the bytes on one device.
struct Priced {
  double seconds = 0;
  double bytes = 0;
};

// An operand or a result, with the prices of the layouts that were tried so far.
struct Side {
  const std::vector<int>& dims;  // the factor of each dim
  std::unordered_map<std::uint64_t, Priced> known = {};
};

class Choosing {
 public:
  Choosing(const Question& question, const Prices& prices, const mesh::Mesh& mesh)
      : q_(question), prices_(prices), mesh_(mesh), sharded_(question.factors.factors.size()) {
    for (const std::vector<int>& dims : question.factors.operands) operands_.push_back({dims});
    for (const std::vector<int>& dims : question.factors.results) results_.push_back({dims});
    for (AxisIndex axis = 0; axis < mesh.axes().size(); ++axis) {
      if (mesh.axis(axis).size() > 1) axes_.push_back(axis);
    }
    if (axes_.size() > 16)
      fail(fmt::format("{} axes are larger than one, at most 16 are laid out", axes_.size()), "the mesh",
           "leave some at 1");
    find_references();
    for (const AxisIndex axis : axes_) {
      places_.push_back(places_of(axis));
      carriers_.push_back(carrier(axis));
    }
  }

  Answers find() {
    std::vector<int> assigned(axes_.size(), kNone);
    double ways = 1;
    for (const std::vector<int>& places : places_) ways *= static_cast<double>(places.size());
    if (ways <= kMostWays) {
      try_all(assigned, 0);
    } else {
      descend();
    }
    Answers answers;
    if (best_.seconds != kNever) answers.best = answer_of(best_);
    if (next_.seconds != kNever) answers.runner_up = answer_of(next_);
    return answers;
  }

 private:
  // An assignment: for each axis the factor that it shards, kCarry or kNone.
  struct Way {
    std::vector<int> assigned;
    double seconds = kNever;
  };

  const std::vector<Factor>& factors() const { return q_.factors.factors; }

  ByFactor by_factor(const std::vector<int>& dims, const Spec& spec) const {
    ByFactor made(factors().size());
    for (std::size_t dim = 0; dim < dims.size() && dim < spec.dims.size(); ++dim) {
      if (dims[dim] != kWhole) made[static_cast<std::size_t>(dims[dim])] = spec.dims[dim];
    }
    return made;
  }

  // The known layouts: first those that are wanted of the results, then those in which the operands exist.
  void find_references() {
    for (std::size_t i = 0; i < q_.wants.size(); ++i) {
      if (q_.wants[i]) references_.push_back(by_factor(q_.factors.results[i], *q_.wants[i]));
    }
    for (std::size_t i = 0; i < q_.operands.size(); ++i)
      references_.push_back(by_factor(q_.factors.operands[i], q_.operands[i].lies));
    for (std::size_t i = 0; i < q_.operands.size(); ++i) {
      for (const Spec& version : q_.operands[i].versions) {
        references_.push_back(by_factor(q_.factors.operands[i], version));
      }
    }
  }

  // The factors that an axis may go to: those that it shards in a reference and, if the axes may go anywhere, all that are large enough.
  std::vector<int> places_of(AxisIndex axis) const {
    if (q_.agreed && (*q_.agreed)[axis] != kNone) return {(*q_.agreed)[axis]};
    if (q_.agreed) return may_carry(axis) ? std::vector<int>{kCarry, kNone} : std::vector<int>{kNone};
    std::vector<int> places;
    const auto add = [&](int place) {
      if (std::find(places.begin(), places.end(), place) == places.end()) places.push_back(place);
    };
    for (const ByFactor& reference : references_) {
      for (std::size_t f = 0; f < reference.size(); ++f) {
        if (holds(reference[f], axis)) add(static_cast<int>(f));
      }
    }
    if (may_carry(axis)) add(kCarry);
    add(kNone);
    if (q_.factors.anywhere) {
      for (std::size_t f = 0; f < factors().size(); ++f) {
        if (factors()[f].size >= mesh_.axis(axis).size()) add(static_cast<int>(f));
      }
    }
    return places;
  }

  bool may_carry(AxisIndex axis) const {
    if (q_.factors.linear_together) {
      return std::all_of(q_.operands.begin(), q_.operands.end(),
                         [&](const Candidate& o) { return is_partial(o, axis); });
    }
    return carrier(axis) >= 0;
  }

  // The only operand that is a partial sum over the axis, if the op is linear in it; else -1.
  int carrier(AxisIndex axis) const {
    int found = -1;
    for (std::size_t i = 0; i < q_.operands.size(); ++i) {
      if (q_.operands[i].asked || !is_partial(q_.operands[i], axis)) continue;
      if (found >= 0 || !q_.factors.linear[i]) return -1;
      found = static_cast<int>(i);
    }
    return found;
  }

  void try_all(std::vector<int>& assigned, std::size_t index) {
    if (index == axes_.size()) {
      judge(assigned);
      return;
    }
    for (const int place : places_[index]) {
      assigned[index] = place;
      try_all(assigned, index + 1);
    }
  }

  // Local search. It starts from the two cheapest among the references and the assignment that shards nothing, and changes one
  // axis at a time as long as that helps, then two axes at a time.
  void descend() {
    std::vector<Way> starts{{std::vector<int>(axes_.size(), kNone), 0}};
    for (const ByFactor& reference : references_) {
      Way start = starts.front();
      for (std::size_t a = 0; a < axes_.size(); ++a) {
        for (std::size_t f = 0; f < reference.size(); ++f) {
          if (holds(reference[f], axes_[a])) start.assigned[a] = static_cast<int>(f);
        }
      }
      const bool is_new = std::none_of(starts.begin(), starts.end(),
                                       [&](const Way& other) { return other.assigned == start.assigned; });
      if (is_new) starts.push_back(std::move(start));
    }
    for (Way& start : starts) start.seconds = judge(start.assigned);
    std::stable_sort(starts.begin(), starts.end(), [](const Way& a, const Way& b) { return a.seconds < b.seconds; });
    for (std::size_t i = 0; i < std::min<std::size_t>(2, starts.size()); ++i) {
      do {
        while (change_one(starts[i])) continue;
      } while (change_two(starts[i]));
    }
  }

  void take_if_better(const std::vector<int>& assigned, Way& better) {
    const double seconds = judge(assigned);
    if (seconds < better.seconds * kClearly || (better.seconds == kNever && seconds < kNever))
      better = {assigned, seconds};
  }

  bool replace(Way& way, Way better) {
    const bool is_better = better.seconds < way.seconds;
    if (is_better) way = std::move(better);
    return is_better;
  }

  bool change_one(Way& way) {
    Way better = way;
    std::vector<int> assigned = way.assigned;
    for (std::size_t a = 0; a < axes_.size(); ++a) {
      for (const int place : places_[a]) {
        assigned[a] = place;
        take_if_better(assigned, better);
      }
      assigned[a] = way.assigned[a];
    }
    return replace(way, std::move(better));
  }

  bool change_two(Way& way) {
    Way better = way;
    std::vector<int> assigned = way.assigned;
    for (std::size_t a = 0; a < axes_.size(); ++a) {
      for (std::size_t b = a + 1; b < axes_.size(); ++b) {
        for (const int place_a : places_[a]) {
          for (const int place_b : places_[b]) {
            assigned[a] = place_a;
            assigned[b] = place_b;
            take_if_better(assigned, better);
          }
        }
        assigned[b] = way.assigned[b];
      }
      assigned[a] = way.assigned[a];
    }
    return replace(way, std::move(better));
  }

  // A factor with these axes, in the order of the first reference that has most of them on the factor; further ones go behind, where
  // scattering a partial sum puts them and gathering takes them away.
  const Sharded& sharded(std::size_t f, AxisSet set) {
    const auto [entry, is_new] = sharded_[f].try_emplace(set);
    if (is_new) entry->second = shard(f, set);
    return entry->second;
  }

  Sharded shard(std::size_t f, AxisSet set) const {
    Sharded made{true, {}, factors()[f].size};
    for (std::size_t a = 0; a < axes_.size(); ++a) {
      if ((set >> a & 1) != 0) made.axes.push_back(axes_[a]);
    }
    if (made.axes.empty()) return made;
    AxisList first;
    for (const ByFactor& reference : references_) {
      AxisList ordered;
      for (const AxisIndex axis : reference[f]) {
        if (holds(made.axes, axis)) ordered.push_back(axis);
      }
      if (ordered.size() > first.size()) first = std::move(ordered);
    }
    for (const AxisIndex axis : made.axes) {
      if (!holds(first, axis)) first.push_back(axis);
    }
    made.axes = std::move(first);
    // Blocks of unequal size are allowed if a reference has exactly these axes, or if the axes may go anywhere.
    const bool known = std::any_of(references_.begin(), references_.end(), [&](const ByFactor& of) { return of[f] == made.axes; });
    const std::int64_t shards = sharding::shards(made.axes, mesh_);
    const bool divides = factors()[f].size % shards == 0;
    const bool may_differ = !factors()[f].even && (known || q_.factors.anywhere);
    made.is_possible = divides || may_differ;
    made.size = divide_up(factors()[f].size, shards);
    return made;
  }

  double judge(const std::vector<int>& assigned) {
    const double seconds = price(assigned);
    if (seconds == kNever || assigned == best_.assigned) return seconds;
    if (best_.seconds == kNever || seconds < best_.seconds * kClearly) {
      next_ = std::exchange(best_, {assigned, seconds});
    } else if (next_.seconds == kNever || seconds < next_.seconds * kClearly) {
      next_ = {assigned, seconds};
    }
    return seconds;
  }

  // The set of axes of each factor.
  const std::vector<AxisSet>& sets_of(const std::vector<int>& assigned) {
    sets_.assign(factors().size(), 0);
    for (std::size_t a = 0; a < assigned.size(); ++a) {
      if (assigned[a] >= 0) sets_[static_cast<std::size_t>(assigned[a])] |= static_cast<AxisSet>(1u << a);
    }
    return sets_;
  }

  // Whether an operand or a result is a partial sum over the axis, which is assigned to `place`.
  bool is_partial_operand(std::size_t i, std::size_t a, int place) const {
    return place == kCarry && (q_.factors.linear_together || carriers_[a] == static_cast<int>(i));
  }
  static bool is_partial_result(const Side& side, int place) {
    return place == kCarry || (place >= 0 && std::find(side.dims.begin(), side.dims.end(), place) == side.dims.end());
  }

  // A number for the layout. It has one digit for each axis: dim + 2 if it shards that dim, 1 for a partial sum, else 0.
  template <typename IsPartial>
  static std::uint64_t layout_of(const Side& side, const std::vector<int>& assigned, IsPartial is_partial_over) {
    std::uint64_t number = 0;
    for (std::size_t a = 0; a < assigned.size(); ++a) {
      std::uint64_t digit = is_partial_over(a) ? 1 : 0;
      for (std::size_t d = 0; assigned[a] >= 0 && d < side.dims.size(); ++d) {
        if (side.dims[d] == assigned[a]) digit = d + 2;
      }
      number = number * (side.dims.size() + 2) + digit;
    }
    return number;
  }

  template <typename IsPartial>
  Spec spec_of(const Side& side, const std::vector<int>& assigned, IsPartial is_partial_over) {
    const std::vector<AxisSet>& sets = sets_of(assigned);
    Spec spec;
    for (const int factor : side.dims) {
      spec.dims.push_back(factor == kWhole
                              ? AxisList{}
                              : sharded(static_cast<std::size_t>(factor), sets[static_cast<std::size_t>(factor)]).axes);
    }
    for (std::size_t a = 0; a < axes_.size(); ++a) {
      if (is_partial_over(a)) spec.partial.push_back(axes_[a]);
    }
    return spec;
  }

  Spec operand_spec(std::size_t i, const std::vector<int>& assigned) {
    return spec_of(operands_[i], assigned, [&](std::size_t a) { return is_partial_operand(i, a, assigned[a]); });
  }
  Spec result_spec(std::size_t i, const std::vector<int>& assigned) {
    return spec_of(results_[i], assigned, [&](std::size_t a) { return is_partial_result(results_[i], assigned[a]); });
  }

  const Priced& operand(std::size_t i, const std::vector<int>& assigned) {
    const std::uint64_t layout =
        layout_of(operands_[i], assigned, [&](std::size_t a) { return is_partial_operand(i, a, assigned[a]); });
    const auto [entry, is_new] = operands_[i].known.try_emplace(layout);
    Priced& priced = entry->second;
    if (!is_new) return priced;
    const Candidate& value = q_.operands[i];
    const Spec spec = operand_spec(i, assigned);
    priced.bytes = static_cast<double>(sharding::shard_bytes(value.shape, value.dtype, spec, mesh_));
    if (!cheapest_version(value, spec, prices_.reshards, &priced.seconds)) priced.seconds = kNever;
    return priced;
  }

  // A factor that is summed over is in no dim of the result, so its axes leave a partial sum.
  const Priced& result(std::size_t i, const std::vector<int>& assigned) {
    const std::uint64_t layout =
        layout_of(results_[i], assigned, [&](std::size_t a) { return is_partial_result(results_[i], assigned[a]); });
    const auto [entry, is_new] = results_[i].known.try_emplace(layout);
    Priced& priced = entry->second;
    if (!is_new) return priced;
    const Spec spec = result_spec(i, assigned);
    priced.bytes = static_cast<double>(sharding::shard_bytes(q_.result_shapes[i], q_.result_dtypes[i], spec, mesh_));
    Spec goal = spec;
    goal.partial.clear();
    if (q_.wants[i]) goal = with_partial_within(*q_.wants[i], spec.partial);
    priced.seconds = prices_.reshards.fastest(q_.result_shapes[i], q_.result_dtypes[i], spec, goal).seconds;
    return priced;
  }

  double price(const std::vector<int>& assigned) {
    sets_of(assigned);
    sizes_.clear();
    for (std::size_t f = 0; f < sets_.size(); ++f) {
      const Sharded& factor = sharded(f, sets_[f]);
      if (!factor.is_possible) return kNever;
      sizes_.push_back(factor.size);
    }
    double seconds = 0;
    graph::Traffic traffic(q_.node, q_.factors.in_place);
    for (std::size_t i = 0; i < q_.operands.size(); ++i) {
      const Priced& priced = operand(i, assigned);
      const bool is_free = is_paid(i, assigned);
      traffic.read(i, priced.bytes, q_.operands[i].dtype, is_free ? 0 : q_.operands[i].part_read);
      if (!is_free) seconds += priced.seconds;
    }
    for (std::size_t i = 0; i < q_.result_shapes.size(); ++i) {
      const Priced& priced = result(i, assigned);
      traffic.write(priced.bytes);
      seconds += priced.seconds;
    }
    if (seconds == kNever) return kNever;
    graph::Work work = graph::work_of(q_.node, q_.factors, sizes_);
    traffic.add_to(work);
    if (!q_.operands.empty()) work.dtype = q_.operands[0].dtype;
    return seconds + cost::kernel_seconds(work, prices_.chip);
  }

  // Whether an earlier operand is the same value in the same layout, which is then resharded only once.
  bool is_paid(std::size_t i, const std::vector<int>& assigned) {
    for (std::size_t k = 0; k < i; ++k) {
      if (q_.operands[k].id == q_.operands[i].id && operand_spec(k, assigned) == operand_spec(i, assigned)) return true;
    }
    return false;
  }

  Answer answer_of(const Way& way) {
    Answer answer;
    for (std::size_t i = 0; i < q_.operands.size(); ++i) answer.operands.push_back(operand_spec(i, way.assigned));
    for (std::size_t i = 0; i < q_.result_shapes.size(); ++i) answer.results.push_back(result_spec(i, way.assigned));
    answer.seconds = way.seconds;
    return answer;
  }

  const Question& q_;
  const Prices& prices_;
  const mesh::Mesh& mesh_;
  AxisList axes_;
  std::vector<std::vector<int>> places_;  // by axis
  std::vector<int> carriers_;             // by axis
  std::vector<ByFactor> references_;
  // Caches of what was computed so far.
  std::vector<std::unordered_map<AxisSet, Sharded>> sharded_;  // by factor
  std::vector<Side> operands_, results_;
  Way best_, next_;
  std::vector<AxisSet> sets_;        // by factor, of the assignment that is being priced
  std::vector<std::int64_t> sizes_;  // of the factors on one device, under that assignment
};

}  // namespace

std::optional<Spec> cheapest_version(const Candidate& value, const Spec& to, const ReshardPrices& prices,
                                     double* seconds) {
  const Spec* best = nullptr;
  *seconds = kNever;
  for (const Spec& from : value.versions) {
    const bool possible =
        std::all_of(to.partial.begin(), to.partial.end(), [&](AxisIndex a) { return holds(from.partial, a); });
    if (!possible) continue;
    const double price = prices.fastest(value.shape, value.dtype, from, to).seconds;
    if (price < *seconds) {
      *seconds = price;
      best = &from;
    }
  }
  return best == nullptr ? std::nullopt : std::optional<Spec>(*best);
}

Answers choose(const Question& question, const Prices& prices, const mesh::Mesh& mesh) {
  return Choosing(question, prices, mesh).find();
}

}  // namespace moesh::partition
