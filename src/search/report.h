// What a search found, as text and as JSON.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "forecast/page/page.h"
#include "search/search.h"

namespace moesh::search {

// A machine, and what was found for it.
struct OnMachine {
  std::string machine;
  std::vector<std::string> request;  // that names it
  std::int64_t devices = 1;
  Outcome outcome;
};

struct Told {
  Objective objective = Objective::time;
  std::vector<OnMachine> machines;  // the smallest first; only on the last one something may fit
  std::optional<Found> against;     // a layout that the best is held against
  int threads = 1;
};

std::string to_text(const Told& told, int width);
// What stands on a page above the plans that are shown: all that was found, with its commands.
forecast::Front front_of(const Told& told, const std::string& title);
std::string to_json(const Told& told);

}  // namespace moesh::search
