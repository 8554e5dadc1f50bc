// The best ways to run a model on a machine: what a request leaves open is chosen, by planning steps.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "search/front.h"

namespace moesh::search {

// What comes first.
enum class Objective { time, memory };

struct Effort {
  Objective objective = Objective::time;
  std::int64_t most_plans = 10'000;
  int threads = 1;
};

// What became of the plans that there could be.
struct Counts {
  std::int64_t layouts = 0;    // rule sets, axis sizes, ways to the experts
  std::int64_t too_large = 0;  // of them: by their state alone
  std::int64_t uneven = 0;     // over which the batch does not lie evenly
  std::int64_t refused = 0;    // that turned out not to be possible
  std::int64_t left = 0;       // that were not looked at, as most_plans were made
  std::int64_t settings = 0;   // plans of all layouts: with each remat policy and pass
  std::int64_t planned = 0;    // of them
};

struct Outcome {
  std::vector<Found> front;      // by time and memory, the fastest first; empty where nothing fits
  std::optional<Found> nearest;  // then: the one that takes the least memory, of those planned
  std::int64_t least_state = 0;  // parameters and moments of a device in the layout that has the least of them
  std::int64_t usable_memory = 0;
  Counts counts;
  double seconds = 0;  // that it took
};

// `request` names the model and the machine. The same request gives the same front on any number of threads, as long as
// most_plans do not end the search.
Outcome search(const std::vector<std::string>& request, const Effort& effort);

// A request planned: what it takes, and what limits it.
Found found_of(const advice::Keys& keys, const advice::Planned& planned);

}  // namespace moesh::search
