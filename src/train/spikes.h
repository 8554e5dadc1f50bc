// Spikes: losses and gradient norms that stand out from those of recent steps (skip_step_on_spikes).
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "config/settings.h"

namespace moesh::train {

// The largest loss and gradient norm that are no spikes. Without limits they are finite all the same: what is not finite is a spike.
struct SpikeLimits {
  double loss = std::numeric_limits<float>::max();
  double grad_norm = std::numeric_limits<float>::max();
};

// Numbers of a run besides its tensors, by name, which a checkpoint keeps.
using RunNumbers = std::map<std::string, std::vector<double>>;

// The losses and gradient norms of the last skip_step_interval steps. All of them are counted, also those of spikes, so that a new level is
// no spike for long; but not what is not finite, from which nothing could stand out.
class RecentSteps {
 public:
  explicit RecentSteps(const config::Settings& settings);

  bool are_watched() const { return interval_ > 0; }
  // A number is a spike if it is above the mean by more than skip_step_scaling_factor standard deviations. There are no limits before half
  // of the interval has been seen.
  SpikeLimits limits() const;
  void add(double loss, double grad_norm, bool is_left_out);
  std::int64_t size() const { return static_cast<std::int64_t>(losses_.size()); }
  // The steps that were left out: neither the optimizer nor the learning rate counts them, also in a later run that watches none.
  std::int64_t left_out() const { return left_out_; }

  RunNumbers numbers() const;
  // Takes the numbers of a checkpoint. Returns false if it has none.
  bool take(const RunNumbers& numbers);

 private:
  std::size_t interval_;  // 0: no steps are watched
  double factor_;
  std::vector<double> losses_, grad_norms_;  // the oldest first
  std::int64_t left_out_ = 0;
};

}  // namespace moesh::train
