// Plans of which none is better than another in every respect.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "advice/fit.h"

namespace moesh::search {

// What a step spends its time on: "products", "all-gather over fsdp", with its share.
using Limits = std::vector<std::pair<std::string, double>>;

struct Found {
  advice::Offer offer;
  std::string layout;  // "fsdp=8 x expert=8, default rules"
  double mfu = 0;
  double exposed = 0;  // seconds of a step in which only collectives run
  Limits limits;       // the largest first

  // All devices' time for a token.
  double seconds_per_token() const { return offer.seconds * static_cast<double>(offer.devices) / static_cast<double>(offer.tokens); }
};

// The least that plans can take of which none was made yet.
struct Bound {
  double seconds_per_token = 0;
  std::int64_t peak = 0;
};

// Holds all plans that none is better than, of which it shows those that clearly differ: so what is shown does not depend on the order
// in which plans are found.
class Front {
 public:
  // What is so many times slower than the fastest is of no use, however little it takes.
  explicit Front(double far_slower) : far_slower_(far_slower) {}

  void add(const Found& found);

  // Whether nothing within the bound is of use: neither clearly faster nor clearly smaller than something that was found, or far
  // slower than the fastest.
  bool excludes(const Bound& bound) const;

  // The fastest first. For each plan that was found there is one that is slower by a thousandth and larger by a twentieth at most, unless
  // it is far slower than the fastest.
  std::vector<Found> found() const;

 private:
  double far_slower_;
  std::vector<Found> best_;  // each slower and smaller than the one before
};

}  // namespace moesh::search
