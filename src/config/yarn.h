// YaRN's scale for sequences that grow by a factor: rotated values are multiplied by it once, scores twice.
#pragma once

#include <cmath>

namespace moesh::config {

// `strength`: the setting mscale.
inline double yarn_scale(double factor, double strength = 1) { return 0.1 * strength * std::log(factor) + 1; }
inline double yarn_strength(double factor, double scale) { return (scale - 1) / (0.1 * std::log(factor)); }

// The same, but 1 if sequences do not grow.
inline double yarn_scale_if_longer(double factor, double strength = 1) { return factor > 1 ? yarn_scale(factor, strength) : 1; }

}  // namespace moesh::config
