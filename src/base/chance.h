// Probabilities of random draws.
#pragma once

#include <algorithm>

namespace moesh {

// The chance that at least one of `here` things is among `drawn` different ones of `all`. `here` may be an expected number.
constexpr double chance_of_any(double here, double drawn, double all) {
  double none = 1;
  for (double i = 0; i < drawn && none > 0; ++i) none *= std::max(0.0, (all - i - here) / (all - i));
  return 1 - none;
}

}  // namespace moesh
