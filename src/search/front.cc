#include "search/front.h"

#include <algorithm>

namespace moesh::search {
namespace {

// Half of the tolerances of Front::found, since they may be used twice: a plan may never be made because of a plan that was found, and
// that one may be left out for one that is shown.
constexpr double kLess = 0.975, kFaster = 0.9995;

bool is_as_fast(const Found& found, double seconds_per_token) { return kFaster * found.seconds_per_token() <= seconds_per_token; }

}  // namespace

bool Front::takes_as_little(const Found& found, double taken) const { return kLess * taken_by(found) <= taken; }

void Front::add(const Found& found) {
  const auto is_no_worse = [&](const Found& one, const Found& other) {
    return one.seconds_per_token() <= other.seconds_per_token() && taken_by(one) <= taken_by(other);
  };
  if (std::any_of(best_.begin(), best_.end(), [&](const Found& one) { return is_no_worse(one, found); })) return;
  std::erase_if(best_, [&](const Found& one) { return is_no_worse(found, one); });
  const auto is_faster = [](const Found& a, const Found& b) { return a.seconds_per_token() < b.seconds_per_token(); };
  best_.insert(std::upper_bound(best_.begin(), best_.end(), found, is_faster), found);
}

bool Front::excludes(const Bound& bound) const {
  if (best_.empty()) return false;
  const double taken = beside_ == Beside::memory ? static_cast<double>(bound.peak) : bound.seconds;
  return bound.seconds_per_token > far_slower_ * best_.front().seconds_per_token() ||
         std::any_of(best_.begin(), best_.end(),
                     [&](const Found& found) { return is_as_fast(found, bound.seconds_per_token) && takes_as_little(found, taken); });
}

std::vector<Found> Front::found() const {
  std::vector<Found> shown;
  for (auto next = best_.begin(); next != best_.end();) {
    const double seconds = next->seconds_per_token();
    if (seconds > far_slower_ * best_.front().seconds_per_token()) break;
    // Of the plans that are as fast, the one that takes the least represents them, and also the slower ones that take hardly less.
    const auto chosen = std::find_if(next, best_.end(), [&](const Found& one) { return !is_as_fast(one, seconds); }) - 1;
    shown.push_back(*chosen);
    next = std::find_if(chosen, best_.end(), [&](const Found& one) { return !takes_as_little(*chosen, taken_by(one)); });
  }
  return shown;
}

}  // namespace moesh::search
