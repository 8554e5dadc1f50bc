// What is odd about a request, all told: its layout, the memory and the time of its step; with changes that were found to mend it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "advice/planned.h"
#include "sharding/finding.h"

namespace moesh::advice {

struct Advice {
  std::vector<sharding::Finding> findings;
  std::optional<forecast::Forecast> forecast;  // where a step could be planned
};

// `session` is the request's, opened with what does not divide reported. Each change that is offered was made: it ends its finding,
// adds no error, and where the finding is one of speed or memory it makes the step faster or smaller. A finding of that kind that no
// change helps is left out.
Advice advise(const std::vector<std::string>& request, const session::Session& session);

}  // namespace moesh::advice
