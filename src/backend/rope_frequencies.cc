#include "backend/rope_frequencies.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "config/yarn.h"

namespace moesh::backend {
namespace {

using Kind = graph::RopeOf::Kind;

// The pair, as a real number, that makes `rotations` full turns over the original context.
double pair_of(double rotations, const graph::RopeOf& of, double dim) {
  const double positions = static_cast<double>(of.original_max_positions);
  return dim * std::log(positions / (rotations * 2 * std::numbers::pi)) / (2 * std::log(of.max_timescale));
}

// YaRN: low frequencies are divided by the factor and high ones kept, with a linear ramp between.
double yarn(double frequency, double pair, const graph::RopeOf& of, double dim) {
  double low = pair_of(of.beta_fast, of, dim);
  double high = pair_of(of.beta_slow, of, dim);
  if (of.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, dim - 1);
  if (low == high) high += 0.001;
  const double ramp = std::clamp((pair - low) / (high - low), 0.0, 1.0);
  return frequency / of.factor * ramp + frequency * (1 - ramp);
}

// Llama 3.1's published rule: the same, with the ramp between two given bounds; equal bounds leave no ramp.
double llama3(double frequency, const graph::RopeOf& of) {
  const double turns = static_cast<double>(of.original_max_positions) * frequency / (2 * std::numbers::pi);
  if (turns > of.high_freq_factor) return frequency;
  if (turns < of.low_freq_factor || of.low_freq_factor == of.high_freq_factor) return frequency / of.factor;
  const double smooth = (turns - of.low_freq_factor) / (of.high_freq_factor - of.low_freq_factor);
  return (1 - smooth) * frequency / of.factor + smooth * frequency;
}

}  // namespace

ScratchList<double> rope_frequencies(const graph::RopeOf& of, std::int64_t dim) {
  ScratchList<double> all;
  const auto width = static_cast<double>(dim);
  for (std::int64_t pair = 0; pair < dim / 2; ++pair) {
    const double at = 2.0 * static_cast<double>(pair) / width;
    const double base = of.kind == Kind::yarn ? 1 : of.min_timescale;
    double frequency = 1 / (base * std::pow(of.max_timescale / base, at));
    if (of.kind == Kind::yarn) frequency = yarn(frequency, static_cast<double>(pair), of, width);
    if (of.kind == Kind::llama3) frequency = llama3(frequency, of);
    if (of.kind == Kind::standard) frequency /= of.linear_scaling;
    all.push_back(frequency);
  }
  return all;
}

double rope_scale(const graph::RopeOf& of) {
  if (of.kind == Kind::yarn && of.attention_factor >= 0) return of.attention_factor;
  return of.kind == Kind::yarn && of.attention_scaling ? config::yarn_scale_if_longer(of.factor) : 1;
}

}  // namespace moesh::backend
