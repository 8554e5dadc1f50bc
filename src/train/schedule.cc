// The learning rate of each step: warm-up, then a cosine, or a plateau and a decay.
#include <cmath>
#include <numbers>

#include "train/step.h"

namespace moesh::train {
namespace {

struct Schedule {
  double peak, last;
  std::int64_t steps, warmup, decay;
  bool cosine_decay;
};

Schedule schedule_of(const config::Settings& settings) {
  const std::int64_t asked = settings.integer("learning_rate_schedule_steps");
  const std::int64_t steps = asked > 0 ? asked : settings.integer("steps");
  const double peak = settings.real("learning_rate");
  const bool cosine = settings.text("lr_schedule_type") == "cosine";
  const auto warmup = static_cast<std::int64_t>(static_cast<double>(steps) * settings.real("warmup_steps_fraction"));
  const auto wsd = static_cast<std::int64_t>(static_cast<double>(steps) * settings.real("wsd_decay_steps_fraction"));
  return {peak, peak * settings.real("learning_rate_final_fraction"), steps, warmup, cosine ? steps - warmup : wsd,
          cosine || settings.text("wsd_decay_style") == "cosine"};
}

double along_cosine(const Schedule& s, std::int64_t step) {
  const double part = s.decay > 1 ? static_cast<double>(step) / static_cast<double>(s.decay - 1) : 1;
  const double a = 0.5 * (std::cos(std::numbers::pi * part) + 1);
  return s.peak * a + s.last * (1 - a);
}

double along_line(const Schedule& s, std::int64_t step) {
  if (s.decay <= 1) return s.peak;
  const double part = std::min(1.0, static_cast<double>(step) / static_cast<double>(s.decay - 1));
  return s.peak + (s.last - s.peak) * part;
}

}  // namespace

double learning_rate(const config::Settings& settings, std::int64_t step) {
  const Schedule s = schedule_of(settings);
  if (step < s.warmup) return s.peak * static_cast<double>(step) / static_cast<double>(s.warmup);
  if (step >= s.steps && settings.integer("steps") > s.steps) return 0;
  const std::int64_t stable_end = s.steps - s.decay;
  if (step < stable_end) return s.peak;
  return s.cosine_decay ? along_cosine(s, step - stable_end) : along_line(s, step - stable_end);
}

}  // namespace moesh::train
