// How positions turn and scale queries and keys.
#pragma once

#include <cstdint>

namespace moesh::graph {

struct RopeOf {
  enum class Kind : std::uint8_t { standard, llama3, yarn };
  Kind kind = Kind::standard;
  bool interleave = false;  // pairs (2i, 2i+1) instead of halves
  double min_timescale = 1;
  double max_timescale = 10000;
  double linear_scaling = 1;
  double factor = 1;  // yarn, llama3
  double beta_fast = 32;
  double beta_slow = 1;
  double low_freq_factor = 1;
  double high_freq_factor = 4;
  std::int64_t original_max_positions = 4096;
  bool truncate = true;
  bool attention_scaling = false;
  double attention_factor = -1;  // multiplies the result; -1: as attention_scaling says
  bool inverse = false;  // rotates backward, as the gradient of a rotation does
  bool is_wide = false;  // of the standard kind: angles are not rounded to a narrow x's type
};
// The factor at a position: 1 + scale * ln(1 + floor((position + 1) / floor)).
struct TemperOf {
  double scale = 0.1;
  double floor = 8192;
};

}  // namespace moesh::graph
