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

// A layout of the user's, which is compared with the best.
struct Yours {
  std::vector<std::string> request;  // without the layout's own keys; its machine may be larger than the one where something fits
  Found found;
};

// All that a report tells.
struct Told {
  Objective objective = Objective::time;
  Stage stage = {};                 // of decoding; nothing for training
  std::vector<OnMachine> machines;  // the smallest first; on all but the last nothing fits
  std::optional<Yours> against;
  int threads = 1;
};

std::string to_text(const Told& told, int width);
// The top of a page, above the plans that it shows: what was found, with the command of each plan.
forecast::Front front_of(const Told& told, const std::string& title);
std::string to_json(const Told& told);

}  // namespace moesh::search
