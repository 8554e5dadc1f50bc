// Tokens that draw their experts by Zipf's law: how many rows the busiest device has, and how many find no room.
#pragma once

#include <cstdint>
#include <vector>

namespace moesh::forecast {

// What the devices that share out the experts of a layer draw at once.
struct Draw {
  std::int64_t tokens = 1;   // of these devices together
  std::int64_t choices = 1;  // of a token, each another expert
  std::int64_t experts = 1;
  std::int64_t devices = 1;
  std::int64_t groups = 1;  // of such devices, each with tokens of its own and the same experts on the same ones
  double skew = 0;          // the first choice is the r-th expert with a probability in proportion to r^-skew

  bool operator==(const Draw&) const = default;

  double mean_rows() const { return static_cast<double>(tokens * choices) / static_cast<double>(devices); }
};

// How experts lie on their devices: the r-th anywhere, or beside those before it, so that a device has the most wanted
// ones.
enum class ExpertOrder : std::uint8_t { random, by_rank };

struct Load {
  double busiest = 1;        // expected: rows of the device that has the most, of all groups, by the mean
  double almost_always = 1;  // no device has more by the mean in 99 of 100 draws
  double overflows = 0;      // the share of draws in which some device has more rows than room
  double dropped = 0;        // the expected share of choices beyond it
};

// `room`: rows of a device; 0 for all. Sampled with a fixed seed: where rows are few, tokens draw one after the other;
// where they are many, the rows of devices are normal numbers of the same means and covariances.
Load load_of(const Draw& draw, ExpertOrder order, std::int64_t room = 0);

// By rank: the chance that an expert is among a token's choices, which are drawn without putting back.
std::vector<double> chances_of(std::int64_t experts, std::int64_t choices, double skew);

// The expected share of the choices of `tokens` that find none of the `slots` that each expert has for them.
double share_beyond_slots(const Draw& draw, std::int64_t tokens, std::int64_t slots);

}  // namespace moesh::forecast
