#include "search/front.h"

#include <algorithm>

namespace moesh::search {
namespace {

constexpr double kClearlySmaller = 0.95, kClearlyFaster = 0.999;

bool is_as_good(const Found& found, const Bound& bound) {
  return kClearlyFaster * found.seconds_per_token() <= bound.seconds_per_token &&
         kClearlySmaller * static_cast<double>(found.offer.peak) <= static_cast<double>(bound.peak);
}

Bound bound_of(const Found& found) { return {found.seconds_per_token(), found.offer.peak}; }

}  // namespace

void Front::add(const Found& found) {
  if (excludes(bound_of(found))) return;
  found_.insert(std::upper_bound(found_.begin(), found_.end(), found,
                                 [](const Found& a, const Found& b) { return a.seconds_per_token() < b.seconds_per_token(); }),
                found);
  std::vector<Found> left;
  for (Found& one : found_) {
    const Bound bound = bound_of(one);
    const bool is_far = bound.seconds_per_token > far_slower_ * found_.front().seconds_per_token();
    if (!is_far && std::none_of(left.begin(), left.end(), [&](const Found& other) { return is_as_good(other, bound); }))
      left.push_back(std::move(one));
  }
  found_ = std::move(left);
}

bool Front::excludes(const Bound& bound) const {
  if (found_.empty()) return false;
  return bound.seconds_per_token > far_slower_ * found_.front().seconds_per_token() ||
         std::any_of(found_.begin(), found_.end(), [&](const Found& found) { return is_as_good(found, bound); });
}

}  // namespace moesh::search
