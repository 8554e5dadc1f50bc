// The load of devices whose tokens draw experts by Zipf's law: the rows of the busiest device, and the rows that find no room.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/rounding.h"

namespace moesh::forecast {

// The tokens that draw experts at the same time, on the devices that share out the experts of a layer.
struct Draw {
  std::int64_t tokens = 1;   // on these devices together
  std::int64_t choices = 1;  // per token, each a different expert
  std::int64_t experts = 1;
  std::int64_t devices = 1;
  std::int64_t groups = 1;  // groups of such devices, each with its own tokens; all groups place the experts alike
  double skew = 0;          // the probability that the first choice is the r-th expert is proportional to r^-skew

  bool operator==(const Draw&) const = default;

  double mean_rows() const { return static_cast<double>(tokens * choices) / static_cast<double>(devices); }
  // The most that a device can get: of each token as many choices as it has experts.
  std::int64_t most_rows() const { return tokens * std::min(choices, divide_up(experts, devices)); }
};

// How experts are placed on devices: at random, or by rank, so that one device has the most wanted ones.
enum class ExpertOrder : std::uint8_t { random, by_rank };

struct Load {
  double busiest = 1;        // expected rows of the busiest device of all groups, relative to the mean
  double almost_always = 1;  // in 99 of 100 draws no device has more rows than this, relative to the mean
  double overflows = 0;      // the share of draws in which some device has more rows than it has room for
  double dropped = 0;        // the expected share of choices that find no room
};

// `room`: the rows that a device has room for; 0: for all. The load is sampled with a fixed seed. If rows are few, tokens draw one after
// the other; if they are many, the rows per device are normal variates with the same means and covariances, within what is possible.
Load load_of(const Draw& draw, ExpertOrder order, std::int64_t room = 0);

// By an expert's rank: the probability that it is among the choices of a token, which are drawn without replacement.
std::vector<double> chances_of(std::int64_t experts, std::int64_t choices, double skew);

// The expected share of dropped choices if each expert has `slots` capacity slots for `tokens` tokens.
double share_beyond_slots(const Draw& draw, std::int64_t tokens, std::int64_t slots);

}  // namespace moesh::forecast
