#include "train/spikes.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace moesh::train {
namespace {

constexpr const char* kLosses = "recent_losses";
constexpr const char* kGradNorms = "recent_grad_norms";
constexpr const char* kLeftOut = "updates_left_out";

// The mean plus so many standard deviations, whose divisor is one less than the number of values.
double limit_of(const std::vector<double>& values, double factor) {
  const auto count = static_cast<double>(std::max<std::size_t>(1, values.size()));
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / count;
  const double squares = std::accumulate(values.begin(), values.end(), 0.0, [&](double sum, double value) {
    return sum + (value - mean) * (value - mean);
  });
  return mean + factor * std::sqrt(squares / std::max(1.0, count - 1));
}

}  // namespace

RecentSteps::RecentSteps(const config::Settings& settings)
    : interval_(settings.boolean("skip_step_on_spikes") ? static_cast<std::size_t>(settings.integer("skip_step_interval")) : 0),
      factor_(settings.real("skip_step_scaling_factor")) {}

SpikeLimits RecentSteps::limits() const {
  if (!are_watched() || losses_.size() + 1 < std::max<std::size_t>(2, interval_ / 2)) return {};
  return {limit_of(losses_, factor_), limit_of(grad_norms_, factor_)};
}

void RecentSteps::add(double loss, double grad_norm, bool is_left_out) {
  if (!are_watched()) return;
  left_out_ += is_left_out ? 1 : 0;
  if (!std::isfinite(loss) || !std::isfinite(grad_norm)) return;
  for (auto [all, value] : {std::pair{&losses_, loss}, std::pair{&grad_norms_, grad_norm}}) {
    all->push_back(value);
    if (all->size() > interval_) all->erase(all->begin());
  }
}

RunNumbers RecentSteps::numbers() const {
  if (!are_watched() && left_out_ == 0) return {};
  return {{kLosses, losses_}, {kGradNorms, grad_norms_}, {kLeftOut, {static_cast<double>(left_out_)}}};
}

bool RecentSteps::take(const RunNumbers& numbers) {
  losses_.clear();
  grad_norms_.clear();
  left_out_ = 0;
  const auto losses = numbers.find(kLosses), norms = numbers.find(kGradNorms), left_out = numbers.find(kLeftOut);
  if (losses == numbers.end() || norms == numbers.end() || left_out == numbers.end()) return false;
  if (losses->second.size() != norms->second.size() || left_out->second.size() != 1) return false;
  const double count = left_out->second.front();
  if (!(count >= 0 && count <= 1e12)) return false;
  left_out_ = static_cast<std::int64_t>(count);
  for (std::size_t i = 0; i < losses->second.size(); ++i) add(losses->second[i], norms->second[i], false);
  return true;
}

}  // namespace moesh::train
