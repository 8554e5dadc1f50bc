// The results of a search, as text, as a web page and as JSON.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "forecast/page/page.h"
#include "search/search.h"

namespace moesh::search {

// A machine and the outcome of the search on it.
struct OnMachine {
  std::string machine;
  std::vector<std::string> request;  // the request that names the machine
  std::int64_t devices = 1;
  Outcome outcome;
};

// All that a report tells.
struct Told {
  Objective objective = Objective::time;
  std::vector<OnMachine> machines;  // the smallest first; on all but the last nothing fits
  std::optional<Found> against;     // the user's layout, which is compared with the best
  int threads = 1;
};

std::string to_text(const Told& told, int width);
// The top of a page, above the plans that it shows: what was found, with the command of each plan.
forecast::Front front_of(const Told& told, const std::string& title);
std::string to_json(const Told& told);

}  // namespace moesh::search
