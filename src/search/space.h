// The search space: the layouts that a request leaves open, and the remat policies and batches with which each can be run. With a stage it
// is a space of ways to decode.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "config/keys.h"
#include "session/session.h"

namespace moesh::search {

using config::joined;
using config::Keys;
using Stage = std::optional<session::DecodeStage>;

// A layout: a rule set, axis sizes, and a way to bring tokens to the experts.
struct Candidate {
  Keys keys;                            // settings that are added to the request's
  int axes = 0;                         // number of axes larger than one
  int oddity = 0;                       // how unusual these axes are: of equal layouts the one with the usual axes is told
  std::int64_t state_bytes = 0;         // per device, a lower bound on the memory of a step
  std::vector<Keys> remats;             // remat policies, from the one that saves most for the backward pass to the one that saves least
  std::vector<Keys> passes;             // from the most rows at a time to the fewest
  std::vector<std::int64_t> open_rows;  // of all devices, for each of the passes, if the request leaves the batch open
};

struct Space {
  std::vector<Candidate> candidates;  // the simplest first
  std::int64_t usable_memory = 0;     // bytes per device
  bool has_open_batch = false;        // whether the request leaves the number of rows open
  std::int64_t too_large = 0;         // candidates that are left out because their state alone does not fit
  std::int64_t uneven = 0;            // candidates that are left out because no number of rows that is tried divides evenly
  std::int64_t least_state = 0;       // the least state per device of all candidates, including those left out
};

// The request, with the data axis taking the devices of the machine that the axis sizes given leave over, if there are any.
std::vector<std::string> filled(std::vector<std::string> request);

// A request of another program, taken apart.
struct Job {
  Keys open;    // the model and the rows of a step
  Keys layout;  // what a search chooses: rules, axis sizes, passes, what is saved for the backward pass, and so on
};
Job taken_apart(const Keys& translated);

// The space of a request. Settings that the request gives stay fixed: rules, axis sizes, remat policy, batch, way to the experts.
Space space_of(const std::vector<std::string>& request, Stage stage = {});

// Variants of a candidate for training with one more change each: chunks of tokens, moments sharded over the data axis, and a remat policy
// that saves neither more nor less than others do.
std::vector<Candidate> variants_of(const Candidate& candidate, const std::vector<std::string>& request);

// The choices that are never searched, in words.
std::vector<std::string> never_tried(Stage stage, bool has_open_batch);

}  // namespace moesh::search
