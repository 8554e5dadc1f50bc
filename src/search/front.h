// The Pareto front of plans by the time of a token, all devices together, and one more measure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "advice/remedies.h"

namespace moesh::search {

// The shares of a step's time, along its critical path: "products", "all-gather over fsdp", each with its share.
using Limits = std::vector<std::pair<std::string, double>>;

struct Found {
  advice::Offer offer;
  std::string layout;  // "fsdp=8 x expert=8, default rules"
  std::optional<double> mfu;
  double exposed = 0;  // seconds of a step in which only collectives run (exposed communication)
  Limits limits;       // the largest share first

  // Device seconds per token: the time of all devices together.
  double seconds_per_token() const { return offer.seconds * static_cast<double>(offer.devices) / static_cast<double>(offer.tokens); }
};

// What plans are compared by besides the time of a token: the memory that they take, or how long a step takes, which more rows make longer
// though a token then takes less.
enum class Beside { memory, step };

// Lower bounds on what plans take that were not made yet.
struct Bound {
  double seconds_per_token = 0;
  std::int64_t peak = 0;
  double seconds = 0;  // of a step
};

// Keeps all plans that no other one beats in both measures, and shows those of them that clearly differ. What is shown therefore does not
// depend on the order in which plans are found.
class Front {
 public:
  // `far_slower`: a plan that is slower than the fastest by more than this factor is of no use, whatever else it takes.
  explicit Front(double far_slower, Beside beside = Beside::memory) : far_slower_(far_slower), beside_(beside) {}

  void add(const Found& found);

  // Whether plans within the bound cannot be of use: there is a found plan than which they can be clearly better in neither measure, or
  // they are far slower than the fastest.
  bool excludes(const Bound& bound) const;

  // The plans to show, the fastest first. For each plan that was found, one is shown that is at most a thousandth slower and takes at most
  // a twentieth more, unless the plan is far slower than the fastest.
  std::vector<Found> found() const;

 private:
  double taken_by(const Found& found) const {
    return beside_ == Beside::memory ? static_cast<double>(found.offer.peak) : found.offer.seconds;
  }
  bool takes_as_little(const Found& found, double taken) const;

  double far_slower_;
  Beside beside_;
  std::vector<Found> best_;  // each is slower than the one before, and takes less
};

}  // namespace moesh::search
