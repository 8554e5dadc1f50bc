// Scores that send tokens to random experts: the same on every mesh and in every run, and unlike for every token.
#pragma once

#include <cmath>
#include <cstdint>

#include "base/random.h"

namespace moesh::run {

// The k experts with the largest scores are k draws without putting back, expert e with probability (e + 1)^-skew.
inline float random_score(std::int64_t row, std::int64_t position, std::int64_t expert, std::int64_t experts, double skew) {
  const auto place = static_cast<std::uint64_t>(position * experts + expert);
  const double uniform = random_uniform(random_key(row), place);
  return static_cast<float>(-std::log(-std::log(uniform)) - skew * std::log(static_cast<double>(expert + 1)));
}

}  // namespace moesh::run
