// What a request leaves open: ways to lay its model out on a machine, and what each can be run with.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "config/keys.h"

namespace moesh::search {

using config::joined;
using config::Keys;

// A rule set, sizes of axes, and a way to the experts.
struct Candidate {
  Keys keys;                   // besides the request's
  int axes = 0;                // larger than one
  std::int64_t state_bytes = 0;  // of a device, which is the least that a step takes
  std::vector<Keys> remats;      // from all that is saved for the backward pass to the least
  std::vector<Keys> passes;      // from the most tokens at a time to the fewest
};

struct Space {
  std::vector<Candidate> candidates;  // the simplest first
  std::int64_t usable_memory = 0;     // of a device
  std::int64_t too_large = 0;         // candidates that are left out: their state alone does not fit
  std::int64_t uneven = 0;            // those over which no number of rows that is tried lies evenly
  std::int64_t least_state = 0;       // of all of them
};

// The request; where the sizes of axes that it gives leave devices of the machine over, its data axis takes them.
std::vector<std::string> filled(std::vector<std::string> request);

// What the request gives stays as it is: its rules, sizes of axes, remat policy, batch, way to the experts.
Space space_of(const std::vector<std::string>& request);

// The candidate with one more change each: chunks of tokens, moments over the data axis, a remat policy that saves neither more nor
// less than others do.
std::vector<Candidate> variants_of(const Candidate& candidate, const std::vector<std::string>& request);

// What is no part of any space, in words.
std::vector<std::string> never_tried();

}  // namespace moesh::search
