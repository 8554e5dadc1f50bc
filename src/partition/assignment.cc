#include "partition/assignment.h"

#include <algorithm>
#include <limits>

namespace moesh::partition {
namespace {

using graph::Factor;
using graph::kWhole;
using sharding::AxisIndex;
using sharding::AxisList;
using sharding::holds;
using sharding::Spec;

constexpr int kNone = -1;   // the op does the same on all devices along the axis
constexpr int kCarry = -2;  // operands are partial sums over the axis, and so is the result

constexpr double kNever = std::numeric_limits<double>::infinity();

bool is_partial(const Candidate& value, AxisIndex axis) {
  return std::any_of(value.versions.begin(), value.versions.end(), [&](const Spec& v) { return holds(v.partial, axis); });
}

// The axes of each factor, as operands and wanted results have them.
using ByFactor = std::vector<AxisList>;

class Choosing {
 public:
  Choosing(const Question& question, const Prices& prices, const mesh::Mesh& mesh)
      : q_(question), prices_(prices), mesh_(mesh), assigned_(mesh.axes().size(), kNone) {
    for (AxisIndex axis = 0; axis < mesh.axes().size(); ++axis) {
      if (mesh.axis(axis).size() > 1) axes_.push_back(axis);
    }
    find_references();
    for (const AxisIndex axis : axes_) places_.push_back(places_of(axis));
  }

  Answers find() {
    try_axis(0);
    return std::move(found_);
  }

 private:
  const std::vector<Factor>& factors() const { return q_.factors.factors; }

  ByFactor by_factor(const std::vector<int>& dims, const Spec& spec) const {
    ByFactor made(factors().size());
    for (std::size_t dim = 0; dim < dims.size() && dim < spec.dims.size(); ++dim) {
      if (dims[dim] != kWhole) made[static_cast<std::size_t>(dims[dim])] = spec.dims[dim];
    }
    return made;
  }

  // First what is wanted, then what there is.
  void find_references() {
    for (std::size_t i = 0; i < q_.wants.size(); ++i) {
      if (q_.wants[i]) references_.push_back(by_factor(q_.factors.results[i], *q_.wants[i]));
    }
    for (std::size_t i = 0; i < q_.operands.size(); ++i) references_.push_back(by_factor(q_.factors.operands[i], q_.operands[i].lies));
    for (std::size_t i = 0; i < q_.operands.size(); ++i) {
      for (const Spec& version : q_.operands[i].versions) {
        references_.push_back(by_factor(q_.factors.operands[i], version));
      }
    }
  }

  // Where an axis may go: where it is wanted or lies already and, in products, wherever it fits.
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
      return std::all_of(q_.operands.begin(), q_.operands.end(), [&](const Candidate& o) { return is_partial(o, axis); });
    }
    return carrier(axis) >= 0;
  }

  // The one operand that is a partial sum, when the op is linear in it.
  int carrier(AxisIndex axis) const {
    int found = -1;
    for (std::size_t i = 0; i < q_.operands.size(); ++i) {
      if (q_.operands[i].asked || !is_partial(q_.operands[i], axis)) continue;
      if (found >= 0 || !q_.factors.linear[i]) return -1;
      found = static_cast<int>(i);
    }
    return found;
  }

  void try_axis(std::size_t index) {
    if (index == axes_.size()) return judge();
    for (const int place : places_[index]) {
      assigned_[axes_[index]] = place;
      try_axis(index + 1);
    }
  }

  // The axes of a factor, in the order that the first reference which has them all gives them.
  bool axes_of_factors(ByFactor& axes) const {
    axes.assign(factors().size(), {});
    for (const AxisIndex axis : axes_) {
      if (assigned_[axis] >= 0) axes[static_cast<std::size_t>(assigned_[axis])].push_back(axis);
    }
    for (std::size_t f = 0; f < axes.size(); ++f) {
      if (axes[f].empty()) continue;
      // Blocks may differ in size where a reference has just these axes.
      bool known = false, is_ordered = false;
      for (const ByFactor& reference : references_) {
        AxisList ordered;
        for (const AxisIndex axis : reference[f]) {
          if (holds(axes[f], axis)) ordered.push_back(axis);
        }
        if (ordered.size() != axes[f].size()) continue;
        if (!is_ordered) axes[f] = ordered;
        is_ordered = true;
        known = known || reference[f] == axes[f];
      }
      const bool divides = factors()[f].size % sharding::shards(axes[f], mesh_) == 0;
      const bool may_differ = !factors()[f].even && (known || q_.factors.anywhere);
      if (!divides && !may_differ) return false;
    }
    return true;
  }

  void judge() {
    ByFactor axes;
    if (!axes_of_factors(axes)) return;
    Answer answer;
    for (std::size_t i = 0; i < q_.operands.size(); ++i) answer.operands.push_back(operand_spec(i, axes));
    for (std::size_t i = 0; i < q_.result_shapes.size(); ++i) answer.results.push_back(result_spec(i, axes));
    answer.seconds = price(answer, axes);
    if (answer.seconds == kNever) return;
    constexpr double kClearly = 1 - 1e-9;
    if (!any_ || answer.seconds < found_.best.seconds * kClearly) {
      if (any_) found_.runner_up = std::move(found_.best);
      found_.best = std::move(answer);
      any_ = true;
    } else if (!found_.runner_up || answer.seconds < found_.runner_up->seconds * kClearly) {
      found_.runner_up = std::move(answer);
    }
  }

  Spec operand_spec(std::size_t i, const ByFactor& axes) const {
    Spec spec;
    for (const int factor : q_.factors.operands[i]) {
      spec.dims.push_back(factor == kWhole ? AxisList{} : axes[static_cast<std::size_t>(factor)]);
    }
    for (const AxisIndex axis : axes_) {
      if (assigned_[axis] != kCarry) continue;
      if (q_.factors.linear_together || carrier(axis) == static_cast<int>(i)) spec.partial.push_back(axis);
    }
    return spec;
  }

  Spec result_spec(std::size_t i, const ByFactor& axes) const {
    const std::vector<int>& dims = q_.factors.results[i];
    Spec spec;
    for (const int factor : dims) spec.dims.push_back(factor == kWhole ? AxisList{} : axes[static_cast<std::size_t>(factor)]);
    for (const AxisIndex axis : axes_) {
      const int place = assigned_[axis];
      if (place == kCarry || (place >= 0 && std::find(dims.begin(), dims.end(), place) == dims.end())) {
        spec.partial.push_back(axis);
      }
    }
    return spec;
  }

  double price(const Answer& answer, const ByFactor& axes) const {
    double seconds = 0;
    double bytes = 0;
    for (std::size_t i = 0; i < q_.operands.size(); ++i) {
      const Candidate& operand = q_.operands[i];
      if (!q_.factors.in_place || i > 0) {
        bytes += static_cast<double>(operand_bytes(operand.shape, operand.dtype, answer.operands[i], mesh_));
      }
      if (paid_before(i, answer)) continue;
      double moved = 0;
      if (!cheapest_version(operand, answer.operands[i], prices_, &moved)) return kNever;
      seconds += moved;
    }
    for (std::size_t i = 0; i < answer.results.size(); ++i) {
      const Spec& made = answer.results[i];
      if (!q_.factors.in_place) {
        bytes += static_cast<double>(operand_bytes(q_.result_shapes[i], q_.result_dtypes[i], made, mesh_));
      }
      Spec goal = made;
      goal.partial.clear();
      if (q_.wants[i]) goal = *q_.wants[i];
      seconds += prices_.reshard(q_.result_shapes[i], q_.result_dtypes[i], made, goal);
    }
    return seconds + prices_.work(flops(axes), bytes, q_.operands.empty() ? DType::float32 : q_.operands[0].dtype);
  }

  // The same value in the same layout moves once.
  bool paid_before(std::size_t i, const Answer& answer) const {
    for (std::size_t k = 0; k < i; ++k) {
      if (q_.operands[k].id == q_.operands[i].id && answer.operands[k] == answer.operands[i]) return true;
    }
    return false;
  }

  double flops(const ByFactor& axes) const {
    double product = q_.factors.flops;
    if (product == 0) return 0;
    for (std::size_t f = 0; f < factors().size(); ++f) {
      const std::int64_t shards = sharding::shards(axes[f], mesh_);
      product *= static_cast<double>((factors()[f].size + shards - 1) / shards);
    }
    return product;
  }

  const Question& q_;
  const Prices& prices_;
  const mesh::Mesh& mesh_;
  AxisList axes_;
  std::vector<int> assigned_;  // by axis
  std::vector<std::vector<int>> places_;
  std::vector<ByFactor> references_;
  Answers found_;
  bool any_ = false;
};

}  // namespace

std::optional<Spec> cheapest_version(const Candidate& value, const Spec& to, const Prices& prices, double* seconds) {
  const Spec* best = nullptr;
  *seconds = kNever;
  for (const Spec& from : value.versions) {
    const bool possible = std::all_of(to.partial.begin(), to.partial.end(), [&](AxisIndex a) { return holds(from.partial, a); });
    if (!possible) continue;
    const double price = prices.reshard(value.shape, value.dtype, from, to);
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
