// Searches for the best ways to run a model on a machine: chooses the settings that a request leaves open, by planning steps.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "search/front.h"
#include "search/grid.h"
#include "search/space.h"

namespace moesh::search {

// The measure by which plans are ranked.
enum class Objective { time, memory };

struct Effort {
  Objective objective = Objective::time;
  std::int64_t most_plans = 10'000;  // no more are made
  int threads = 1;
};

// Counts of the possible layouts and plans, and of what became of them.
struct Counts {
  std::int64_t layouts = 0;    // combinations of rule set, axis sizes and way to the experts
  std::int64_t too_large = 0;  // layouts whose state alone does not fit
  std::int64_t uneven = 0;     // layouts over which no batch that is tried divides evenly
  std::int64_t same = 0;       // layouts whose plans are those of another, but for the names of axes
  std::int64_t refused = 0;    // plans that turned out not to be possible
  std::int64_t left = 0;       // layouts that were not looked at, since most_plans did not allow it
  std::int64_t settings = 0;   // plans of all layouts that fit and differ: one for each remat policy and pass
  std::int64_t planned = 0;    // plans that were made
  std::int64_t untried = 0;    // plans that were neither made nor excluded by others, since most_plans did not allow it

  std::int64_t differing() const { return planned - same; }  // plans that were made and are not those of another layout
};

struct Outcome {
  std::vector<Found> front;        // the Pareto front, the fastest first; empty if nothing fits
  Beside beside = Beside::memory;  // what it weighs besides the time of a token
  std::optional<Found> nearest;    // if nothing fits: the plan that takes the least memory
  std::int64_t least_state = 0;    // bytes of parameters and moments per device, in the layout that has the least
  std::int64_t usable_memory = 0;
  Counts counts;
  std::string first_refusal;    // why the first plan that was refused is not possible
  double seconds = 0;           // that the search took
  bool has_open_batch = false;  // whether the request leaves the number of rows open
};

// `request` names the model and the machine. The same request gives the same front on any number of threads, unless most_plans ends the
// search. With a stage, ways to decode are searched; those of a request that leaves the number of rows open are compared by the time of a
// token and of a step, unless memory comes first.
Outcome search(const std::vector<std::string>& request, const Effort& effort, Stage stage = {});

}  // namespace moesh::search
